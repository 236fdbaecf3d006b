// The decisions of a run plan, from numbers alone: tests can fake any machine and any model.
#pragma once

#include "planning/memory_needs.h"
#include "planning/plan.h"
#include "platform/processors.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sluice::planning {

/// What the machine and the file's header say. Empty: could not be measured.
struct PlanFacts {
    bool has_experts = false;
    std::optional<uint64_t> usable_memory = {}; ///< that could be taken now, in bytes
    uint64_t held_now = 0;                      ///< resident set of this process already, in bytes
    std::optional<uint64_t> group_limit = {};   ///< bounding_group_limit(), in bytes
    platform::Processors processors = {};
    std::vector<PlanItem> beside = {}; ///< what the process holds beside the model and its context
};

/// Needs of one way to run: measure_needs(), or a test's own.
using NeedsOf =
    std::function<Result<MemoryNeeds>(const ModelOptions &, const SessionOptions &, bool streaming)>;

/// Whether refusals and warnings say what would help. Finding that out takes more plans, which want none.
enum class Advice { Tried, None };

/// See plan_run().
Result<RunPlan> decide(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of,
                       Advice advice = Advice::Tried);

} // namespace sluice::planning
