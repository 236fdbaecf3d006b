// An inspected model for people.
#pragma once

#include "planning/inspect.h"

#include <string>

namespace sluice::telemetry {

/// What the file is, its weights by role, its experts; lines end with a newline. See docs/inspect.md.
std::string inspection_report(const ModelInspection &model);

/// Tensors of one role together.
struct RoleTotals {
    size_t tensors = 0;
    uint64_t bytes = 0;
    std::vector<std::string> operations; ///< that use any of them, the most frequent first
};

RoleTotals role_totals(const ModelInspection &model, WeightRole role);

/// All roles, in the order of reports.
constexpr WeightRole kWeightRoles[] = {WeightRole::Experts, WeightRole::Rows, WeightRole::Dense,
                                       WeightRole::Unused};

} // namespace sluice::telemetry
