// Measures what memory and processor do with weights.
#pragma once

#include "storage/device_probe.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace sluice::backend {

/// How to measure.
struct MachineProbeOptions {
    int cores = 1; ///< what "all" means
    uint64_t bytes =
        uint64_t{512} << 20; ///< memory to work on; larger than the caches, where that is possible
    std::chrono::milliseconds per_rate{150}; ///< each rate is measured so long
    std::function<bool()> keep_going = {};   ///< asked between two rates; false ends the measuring early
};

/// Reads memory, and multiplies rows of q4_K weights in it with a q8_K activation by ggml's own vec_dot, on
/// one core and on all. What could not be measured stays empty. Starts threads of its own, which have ended
/// on return.
storage::MachineRates measure_machine(const MachineProbeOptions &options);

} // namespace sluice::backend
