#include "engine/planner.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::engine {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

double gibibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0);
}

} // namespace

ModeChoice choose_mode(StreamMode asked, const ModeFacts &facts) {
    if (asked == StreamMode::Force) {
        return {true, "asked for by --moe-stream"};
    }
    if (asked == StreamMode::Never) {
        return {false, "asked for by --no-moe-stream"};
    }
    if (!facts.has_experts) {
        return {false, "the model has no routed experts"};
    }
    if (!facts.usable_memory) {
        return {true, "free memory could not be measured, and streaming is safe whatever it is"};
    }
    // Weights, and room for context, compute buffers and the system.
    const uint64_t needed = facts.file_bytes + facts.file_bytes / 16 + system_floor(*facts.usable_memory);
    const std::string sizes = fmt::format("{:.1f} GiB of weights, {:.1f} GiB of usable memory",
                                          gibibytes(facts.file_bytes), gibibytes(*facts.usable_memory));
    return needed > *facts.usable_memory
               ? ModeChoice{true, "the model would not fit in memory (" + sizes + ")"}
               : ModeChoice{false, "the model fits in memory (" + sizes + ")"};
}

uint64_t system_floor(uint64_t usable_memory) {
    return std::max(usable_memory / 16, 256 * kMiB);
}

uint64_t auto_cache_bytes(const CacheFacts &facts) {
    uint64_t wanted = 4 * facts.working_set_bytes;
    if (facts.usable_memory) {
        const uint64_t reserved =
            facts.compute_bytes + facts.mapped_bytes + system_floor(*facts.usable_memory);
        wanted = *facts.usable_memory > reserved ? *facts.usable_memory - reserved : 0;
    }
    return std::clamp(wanted, facts.minimum_bytes, std::max(facts.useful_bytes, facts.minimum_bytes));
}

uint64_t next_cache_limit(uint64_t limit_bytes, uint64_t arena_bytes, const PressureFacts &facts) {
    uint64_t most = arena_bytes;
    if (facts.cgroup_limit && facts.cgroup_limit_at_start &&
        *facts.cgroup_limit < *facts.cgroup_limit_at_start) {
        most -= std::min(most, *facts.cgroup_limit_at_start - *facts.cgroup_limit);
    }
    uint64_t lacking = 0;
    uint64_t spare = UINT64_MAX;
    const auto consider = [&lacking, &spare](std::optional<uint64_t> left, uint64_t low) {
        if (left) {
            lacking = std::max(lacking, low - std::min(low, *left));
            spare = std::min(spare, *left - std::min(2 * low, *left));
        }
    };
    const uint64_t low = std::max(facts.total.value_or(0) / 64, 128 * kMiB);
    consider(facts.available, low);
    consider(facts.cgroup_left, std::min(low, facts.cgroup_others_grew.value_or(0)));
    if (lacking > 0) {
        limit_bytes -= std::min(limit_bytes, lacking);
    } else if (facts.available || facts.cgroup_left) {
        limit_bytes += std::min(arena_bytes - std::min(arena_bytes, limit_bytes), spare);
    }
    return std::min(limit_bytes, most);
}

} // namespace sluice::engine
