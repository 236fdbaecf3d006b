// Where the pages of big memory ranges are: in memory, in swap, or still in their file.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::platform {

using ByteRange = std::span<const std::byte>;

/// Shares of the bytes of some ranges, 0 to 1; empty where the system can't tell.
struct PageResidency {
    std::optional<double> resident; ///< in memory now
    std::optional<double> swapped;  ///< in swap or zram
};

/// Looks at up to `samples` pages spread evenly over `ranges` (all, if there are fewer), a system call each:
/// a few milliseconds for 4096. Neither faults pages in nor stops other threads. Thread-safe.
PageResidency sample_residency(std::span<const ByteRange> ranges, size_t samples);

/// Locks the whole pages that touch `range` into memory. Errors: OutOfMemory, naming the limit on locked
/// memory where that is the reason; nothing is locked then.
Status lock_pages(ByteRange range);

/// Takes the lock back.
void unlock_pages(ByteRange range);

/// Reads mapped pages of `range` in, so that touching them does not fault. Returns when they are there; pages
/// that can't be read are left for whoever touches them.
void populate_pages(ByteRange range);

} // namespace sluice::platform
