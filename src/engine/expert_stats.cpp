#include "engine/model_state.h"

namespace sluice::engine {

ExpertStats expert_stats(const ModelState &model) {
    ExpertStats stats;
    backend::StreamedStore &store = *model.store;
    stats.stall_seconds = static_cast<double>(store.counters.stall_nanoseconds) * 1e-9;
    stats.graphs = store.counters.graphs;
    stats.staged_steps = store.counters.staged_steps;
    stats.materialized = store.counters.materialized;
    stats.token_working_set_bytes = store.token_working_set();
    if (store.cache() != nullptr) {
        const residency::ExpertCounters counters = store.cache()->counters();
        stats.hits = counters.hits;
        stats.misses = counters.misses;
        stats.evictions = counters.evictions;
        stats.rereads = counters.rereads;
        stats.prefetched = counters.prefetched;
        stats.bytes_read = counters.bytes_read;
        stats.read_errors = counters.errors;
        stats.cache_bytes = store.cache()->plan().arena_bytes;
        stats.cache_minimum_bytes = store.cache()->plan().minimum_bytes;
        for (const residency::SlotClass &slot_class : store.cache()->plan().classes) {
            stats.slots += slot_class.slots;
        }
    }
    const storage::ReadCounters reads = model.reads->counters();
    stats.device_bytes = reads.device_bytes;
    stats.buffered_fallbacks = reads.fallbacks;
    return stats;
}

} // namespace sluice::engine
