// What a way to run takes in all, from what it needs: the sums that a plan is made of.
#pragma once

#include "options/options.h"
#include "planning/memory_needs.h"

#include <cstdint>
#include <optional>

namespace sluice::planning {

inline constexpr uint64_t kMiB = uint64_t{1} << 20U;

/// The pages of a program that are in memory differ by up to so much from one run of it to the next.
inline constexpr uint64_t kBetweenRuns = 2 * kMiB;

/// In whole MiB, rounded up.
uint64_t mebibytes(uint64_t bytes);

/// What the process takes beside all that is planned: page tables, stacks, allocator. A fixed part and a
/// 256th of the rest (a 512th goes to page tables).
uint64_t overhead_bytes(uint64_t planned_bytes);

/// `bytes` and the overhead on them.
uint64_t with_overhead(uint64_t bytes);

/// All but the expert cache and the overhead.
uint64_t fixed_bytes(const ModelOptions &model, const MemoryNeeds &needs);

/// The least that a run takes at its worst moment: with the cache asked for or the smallest one, or while it
/// loads. kBetweenRuns is not held against a cache that is given, so that the command of a plan that fills
/// its budget can be run.
uint64_t least_bytes(const ModelOptions &model, const MemoryNeeds &needs);

/// The most that an expert cache can take of `budget` beside the rest, with the overhead of all.
uint64_t room_for_cache(uint64_t budget, const ModelOptions &model, const MemoryNeeds &needs);

} // namespace sluice::planning
