// Gives memory back to the system while a run goes on, and takes it again.
#pragma once

#include "platform/memory_facts.h"
#include "residency/expert_cache.h"
#include "residency/memory_limits.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace sluice::residency {

/// What the system and this process say about memory at one moment.
struct MemoryMoment {
    platform::MemoryFacts system;
    platform::ProcessMemory process;
};

/// Watches for one model. Not thread-safe.
class PressureWatch {
public:
    /// Asks the running system, at most four times a second.
    PressureWatch();

    /// For tests: asks `look`, at most once in `pause`.
    PressureWatch(std::function<MemoryMoment()> look, std::chrono::milliseconds pause);

    /// Call between graphs. Asks and adjusts `cache`, which may use `most` bytes and no more than it was made
    /// with; the first time it has to shrink it says so.
    void adjust(ExpertCache &cache, uint64_t most = UINT64_MAX);

private:
    const std::function<MemoryMoment()> look_;
    const std::chrono::milliseconds pause_;
    const MemoryMoment start_; ///< when it was made
    std::chrono::steady_clock::time_point next_look_;
    bool said_ = false;
};

} // namespace sluice::residency
