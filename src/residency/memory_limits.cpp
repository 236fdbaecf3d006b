#include "residency/memory_limits.h"

#include <algorithm>

namespace sluice::residency {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

} // namespace

uint64_t system_floor(uint64_t usable_memory, std::optional<uint64_t> group_limit) {
    const uint64_t least = std::min(256 * kMiB, group_limit.value_or(UINT64_MAX) / 16);
    return std::max(usable_memory / 16, least);
}

std::optional<uint64_t> bounding_group_limit(const platform::MemoryFacts &facts) {
    const auto above_floor = [](uint64_t left, std::optional<uint64_t> limit) {
        return left - std::min(left, system_floor(left, limit));
    };
    uint64_t least = facts.available ? above_floor(*facts.available, {}) : UINT64_MAX;
    std::optional<uint64_t> bound;
    for (const platform::GroupMemory &group : facts.groups) {
        const uint64_t allowed = above_floor(group.left(), group.limit);
        if (allowed <= least) {
            least = allowed;
            bound = group.limit;
        }
    }
    return bound;
}

uint64_t auto_cache_bytes(const CacheFacts &facts) {
    uint64_t wanted = 4 * facts.working_set_bytes;
    if (facts.usable_memory) {
        const uint64_t reserved =
            facts.compute_bytes + facts.mapped_bytes + system_floor(*facts.usable_memory, facts.group_limit);
        wanted = *facts.usable_memory > reserved ? *facts.usable_memory - reserved : 0;
    }
    return std::clamp(wanted, facts.minimum_bytes, std::max(facts.useful_bytes, facts.minimum_bytes));
}

namespace {

/// How much of the arena a lowered limit takes away.
uint64_t taken_by_limit(uint64_t arena_bytes, const GroupPressure &group) {
    if (!group.limit_at_start || group.limit >= *group.limit_at_start) {
        return 0;
    }
    const uint64_t lowered = *group.limit_at_start - group.limit;
    const uint64_t left = group.left_at_start.value_or(0);
    const uint64_t planned = arena_bytes + system_floor(left, group.limit_at_start);
    return lowered - std::min(lowered, left - std::min(left, planned));
}

/// Below how much free memory a group is short of it.
uint64_t low_water(const GroupPressure &group) {
    const uint64_t low = std::max(group.limit / 64, std::min(128 * kMiB, group.limit / 8));
    // A limit that was not there at the start was not planned for.
    return group.limit_at_start ? std::min(low, group.others_grew.value_or(0)) : low;
}

} // namespace

uint64_t next_cache_limit(uint64_t limit_bytes, uint64_t arena_bytes, const PressureFacts &facts) {
    uint64_t most = arena_bytes;
    uint64_t lacking = 0;
    uint64_t spare = UINT64_MAX;
    bool known = false;
    const auto consider = [&](std::optional<uint64_t> left, uint64_t low) {
        if (left) {
            known = true;
            lacking = std::max(lacking, low - std::min(low, *left));
            spare = std::min(spare, *left - std::min(2 * low, *left));
        }
    };
    consider(facts.available, std::max(facts.total.value_or(0) / 64, 128 * kMiB));
    for (const GroupPressure &group : facts.groups) {
        consider(group.left, low_water(group));
        most = std::min(most, arena_bytes - std::min(arena_bytes, taken_by_limit(arena_bytes, group)));
    }
    if (lacking > 0) {
        limit_bytes -= std::min(limit_bytes, lacking);
    } else if (known) {
        limit_bytes += std::min(arena_bytes - std::min(arena_bytes, limit_bytes), spare);
    }
    return std::min(limit_bytes, most);
}

} // namespace sluice::residency
