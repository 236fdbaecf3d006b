#include "session/planner.h"

#include <fmt/format.h>

namespace sluice::session {

namespace {

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
    const uint64_t needed =
        facts.file_bytes + facts.file_bytes / 16 + system_floor(*facts.usable_memory, facts.group_limit);
    const std::string sizes = fmt::format("{:.1f} GiB of weights, {:.1f} GiB of usable memory",
                                          gibibytes(facts.file_bytes), gibibytes(*facts.usable_memory));
    return needed > *facts.usable_memory
               ? ModeChoice{true, "the model would not fit in memory (" + sizes + ")"}
               : ModeChoice{false, "the model fits in memory (" + sizes + ")"};
}

} // namespace sluice::session
