// An inspected model for programs. docs/inspect.md is the format.
#pragma once

#include "base/error.h"
#include "planning/inspect.h"
#include "planning/plan.h"

#include <string>
#include <string_view>

namespace sluice::telemetry {

/// One JSON object with a newline behind it. `plan` may be a refusal. `version` is the program's.
std::string inspection_json(const ModelInspection &model, const Result<RunPlan> &plan,
                            std::string_view version);

} // namespace sluice::telemetry
