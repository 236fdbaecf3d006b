#include "planning/plan_sizes.h"

#include <algorithm>

namespace sluice::planning {

uint64_t mebibytes(uint64_t bytes) {
    return (bytes + kMiB - 1) / kMiB;
}

uint64_t overhead_bytes(uint64_t planned_bytes) {
    return 8 * kMiB + planned_bytes / 256;
}

uint64_t with_overhead(uint64_t bytes) {
    return bytes + overhead_bytes(bytes);
}

uint64_t fixed_bytes(const ModelOptions &model, const MemoryNeeds &needs) {
    const uint64_t window = model.row_stream ? std::min(model.row_window_bytes, needs.row_table_bytes) : 0;
    return needs.fixed_bytes() + window;
}

uint64_t least_bytes(const ModelOptions &model, const MemoryNeeds &needs) {
    const uint64_t fixed = fixed_bytes(model, needs);
    const bool given = model.cache_bytes && needs.cache_useful_bytes > 0;
    const uint64_t running =
        given ? with_overhead(fixed + std::min(*model.cache_bytes, needs.cache_useful_bytes)) - kBetweenRuns
              : with_overhead(fixed + needs.cache_minimum_bytes);
    return std::max(running, with_overhead(needs.load_peak_bytes));
}

uint64_t room_for_cache(uint64_t budget, const ModelOptions &model, const MemoryNeeds &needs) {
    const uint64_t above = budget - std::min(budget, overhead_bytes(0));
    const uint64_t most = above - above / 257 - (above % 257 == 256 ? 1 : 0); // with a 256th of itself: above
    return most - std::min(most, fixed_bytes(model, needs));
}

} // namespace sluice::planning
