// What would help a run that does not fit, or reads more than it should: only what has been tried on paper.
#pragma once

#include "planning/memory_needs.h"
#include "planning/plan.h"
#include "planning/run_planner.h"

#include <cstdint>
#include <string>

namespace sluice::planning {

/// A plan that came to a point where something is lacking.
struct PlanState {
    const PlanRequest &request;
    const PlanFacts &facts;
    const NeedsOf &needs_of;
    const RunPlan &plan; ///< as decided so far; it has a budget
    const MemoryNeeds &needs;
};

/// The sentence for a run that is not possible: what is missing, and the flags that make it fit, alone or
/// together; if none do, what they leave missing.
std::string refusal(const PlanState &state, Advice advice);

/// Completes the warning that the cache is smaller than what one token touches: the flag with which it would
/// not be, or what stands against it.
std::string cure_for_small_cache(const PlanState &state);

} // namespace sluice::planning
