// The decisions of a run plan, from numbers alone: tests can fake any machine and any model.
#pragma once

#include "engine/memory_needs.h"
#include "sluice/plan.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace sluice::engine {

/// How slices came quickest.
struct ReadingFact {
    IoEngine engine = IoEngine::Threads; ///< Threads or Uring
    int width = 4;                       ///< threads, or reads in flight
};

/// What the machine and the file's header say. Empty: could not be measured.
struct PlanFacts {
    bool has_experts = false;
    std::optional<uint64_t> usable_memory = {}; ///< that could be taken now, in bytes
    uint64_t held_now = 0;                      ///< resident set of this process already, in bytes
    int cores = 1;                              ///< physical
    std::optional<ReadingFact> reading = {};    ///< what a probe of the device recommends for slices
};

/// Needs of one way to run: measure_needs(), or a test's own.
using NeedsOf =
    std::function<Result<MemoryNeeds>(const ModelOptions &, const SessionOptions &, bool streaming)>;

/// See plan_run().
Result<RunPlan> decide(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of);

/// What the process takes beside all that is planned: page tables, stacks, allocator. A fixed part and a
/// 256th of the rest (a 512th goes to page tables).
uint64_t overhead_bytes(uint64_t planned_bytes);

} // namespace sluice::engine
