// Gives memory back to the system while a run goes on, and takes it again.
#pragma once

#include "engine/planner.h"
#include "residency/expert_cache.h"

#include <chrono>

namespace sluice::engine {

/// Watches for one session. Not thread-safe.
class PressureWatch {
public:
    PressureWatch();

    /// Call between graphs. At most every quarter of a second it asks the system and adjusts `cache`; the
    /// first time it has to shrink it says so on stderr.
    void adjust(residency::ExpertCache &cache);

private:
    PressureFacts facts_;
    std::chrono::steady_clock::time_point next_look_;
    bool said_ = false;
};

} // namespace sluice::engine
