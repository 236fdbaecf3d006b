// How much memory a cache may take, and keep. No system calls, so tests can fake any machine.
#pragma once

#include "platform/memory_facts.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::residency {

/// What of the memory that could be used is left to others: a sixteenth, at least 256 MiB. Where a control
/// group with this limit is the tighter bound, a sixteenth of the limit is enough if it is less than those
/// 256 MiB: the rest of the machine has its own memory, and a small group has few others.
uint64_t system_floor(uint64_t usable_memory, std::optional<uint64_t> group_limit = {});

/// The limit of the control group that bounds a run more tightly than the machine and other groups do, once
/// each has kept its floor. Empty: the machine is the tightest.
std::optional<uint64_t> bounding_group_limit(const platform::MemoryFacts &facts);

/// What the cache size is decided from, after dense weights and the context were allocated. Bytes.
struct CacheFacts {
    std::optional<uint64_t> usable_memory;    ///< now, with dense weights and KV cache already charged
    std::optional<uint64_t> group_limit = {}; ///< bounding_group_limit()
    uint64_t compute_bytes = 0;               ///< compute buffers, allocated but not yet touched
    uint64_t mapped_bytes = 0;                ///< dense weights mapped from the file, perhaps not yet read
    uint64_t minimum_bytes = 0;               ///< what one layer needs for one token
    uint64_t useful_bytes = 0;                ///< the cache that holds every slice
    uint64_t working_set_bytes = 0;           ///< slices one token touches
};

/// The size for `--cache-mb auto` without a plan: all that is usable less compute buffers, mapped weights and
/// floor, at most useful_bytes and at least minimum_bytes. Where nothing could be measured: four working
/// sets.
uint64_t auto_cache_bytes(const CacheFacts &facts);

/// What one control group with a limit says while a run goes on. Bytes; empty: unknown.
struct GroupPressure {
    uint64_t limit = 0;                          ///< now
    std::optional<uint64_t> limit_at_start = {}; ///< empty: there was none
    std::optional<uint64_t> left_at_start = {};  ///< before the cache was filled
    std::optional<uint64_t> left = {};           ///< of the limit, reclaimable file pages not counted
    /// What others in the group (and the kernel for them) hold now, beyond what they held at the start.
    std::optional<uint64_t> others_grew = {};
};

/// What the system says while a run goes on. Bytes; empty: unknown.
struct PressureFacts {
    std::optional<uint64_t> available = {}; ///< what could be taken without swapping
    std::optional<uint64_t> total = {};     ///< physical memory
    std::vector<GroupPressure> groups = {}; ///< all that have a limit: any may be the one that runs short
};

/// How much of an arena of `arena_bytes` the expert cache may use from now on, when it uses `limit_bytes`.
/// Below a 64th of the machine's memory (at least 128 MiB) it gives up what is lacking; above twice that it
/// takes back what is to spare. The same goes for what each control group leaves (a 64th of its limit, at
/// least 128 MiB or an eighth of the limit, whichever is less), but only as far as others in the group took
/// it: a run that was planned to fill the group's limit may. A limit that was lowered takes away the
/// difference, less what the run was not to use of it. A limit that was set later was not planned for, so
/// others need not have taken anything.
uint64_t next_cache_limit(uint64_t limit_bytes, uint64_t arena_bytes, const PressureFacts &facts);

} // namespace sluice::residency
