// A run plan for people: the memory table, the decisions with their reasons, the command that says the same.
#pragma once

#include "sluice/plan.h"

#include <string>
#include <vector>

namespace sluice::telemetry {

/// The table of what the peak consists of, against the budget, a line each.
std::vector<std::string> plan_table(const RunPlan &plan);

/// One line for each decision, with its reason; unmeasured ones say so.
std::vector<std::string> plan_choices(const RunPlan &plan);

/// "sluice run -m ..." with every decision spelled out; running it decides nothing anew.
std::string plan_command(const RunPlan &plan);

/// All of it, as `--plan` prints it: table, decisions, "command: ...". Lines end with a newline.
std::string plan_report(const RunPlan &plan);

} // namespace sluice::telemetry
