// A run plan for people: the memory table, the decisions with their reasons, the command that says the same.
#pragma once

#include "planning/plan.h"

#include <string>
#include <vector>

namespace sluice::telemetry {

/// The table of what the peak consists of, against the budget, a line each.
std::vector<std::string> plan_table(const RunPlan &plan);

/// One line for each decision, with its reason; unmeasured ones say so.
std::vector<std::string> plan_choices(const RunPlan &plan);

/// "sluice run -m ..." with what was decided and what was given, as far as it bears on memory, speed or the
/// model's numbers: running it comes to the same plan. What a run finds out is left to it, and prompts,
/// sampling and files to write are not in it.
std::string plan_command(const RunPlan &plan);

/// All of it, as `--plan` prints it: table, decisions, "command: ...". Lines end with a newline.
std::string plan_report(const RunPlan &plan);

} // namespace sluice::telemetry
