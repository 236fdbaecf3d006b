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
        const uint64_t reserved = facts.compute_bytes + system_floor(*facts.usable_memory);
        wanted = *facts.usable_memory > reserved ? *facts.usable_memory - reserved : 0;
    }
    return std::clamp(wanted, facts.minimum_bytes, std::max(facts.useful_bytes, facts.minimum_bytes));
}

} // namespace sluice::engine
