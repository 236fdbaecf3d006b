#include "streaming/model/streamed_model.h"

namespace sluice::streaming {

namespace {

void add_guesses(const residency::ExpertCounters &counters, ExpertStats &stats) {
    const auto &next = counters.guesses[static_cast<size_t>(residency::Guess::NextLayer)];
    stats.lookahead.reads = next.reads;
    stats.lookahead.bytes = next.bytes;
    stats.lookahead.used = next.used;
    stats.lookahead.late = next.late;
    const auto &warm = counters.guesses[static_cast<size_t>(residency::Guess::WarmStart)];
    stats.warm_start = {.reads = warm.reads, .bytes = warm.bytes, .used = warm.used};
}

std::string why_not_streamed(const streaming::TableCandidate &table, const streaming::RowTableState &state) {
    if (!table.refusal.empty()) {
        return table.refusal;
    }
    switch (table.tie) {
    case streaming::Tie::OneTensor:
        return "it is also multiplied by (tied to the output head)";
    case streaming::Tie::Beside:
        return "it is tied to the output head, which is in memory; rows come from storage beside that";
    case streaming::Tie::None:
        break;
    }
    return state.materialized ? "a graph used it otherwise" : "";
}

} // namespace

ExpertStats expert_stats(const StreamedModel &model) {
    ExpertStats stats;
    streaming::StreamedStore &store = *model.store;
    stats.stall_seconds = static_cast<double>(store.counters.stall_nanoseconds) * 1e-9;
    stats.graphs = store.counters.graphs;
    stats.staged_steps = store.counters.staged_steps;
    stats.materialized = store.counters.materialized;
    stats.dropped_experts = store.counters.dropped_experts;
    stats.substituted_experts = store.counters.substituted_experts;
    stats.repacked = store.counters.repacked_slices;
    stats.repack_seconds = static_cast<double>(store.counters.repack_nanoseconds) * 1e-9;
    stats.nodes_brought_forward = store.counters.nodes_brought_forward;
    stats.lookahead.experts = store.counters.guessed_experts;
    stats.lookahead.right = store.counters.rightly_guessed_experts;
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
        add_guesses(counters, stats);
        for (const residency::SlotClass &slot_class : store.cache()->plan().classes) {
            stats.slots += slot_class.slots;
        }
    }
    const storage::ReadCounters reads = model.reads->counters();
    stats.device_bytes = reads.device_bytes;
    stats.buffered_fallbacks = reads.fallbacks;
    return stats;
}

RowStats row_stats(const StreamedModel &model) {
    RowStats stats;
    const streaming::StreamedStore &store = *model.store;
    if (store.rows() == nullptr) {
        return stats;
    }
    const residency::RowCounters counters = store.rows()->counters();
    stats.table_bytes = store.row_table_bytes();
    stats.resident_bytes = counters.resident_bytes;
    stats.rows = counters.rows;
    stats.reads = counters.reads;
    stats.bytes_read = counters.bytes_read;
    stats.evictions = counters.evictions;
    stats.read_errors = counters.errors;
    stats.stall_seconds = static_cast<double>(store.counters.row_stall_nanoseconds) * 1e-9;
    stats.busy_seconds = static_cast<double>(model.row_reads->counters().busy_nanoseconds) * 1e-9;
    return stats;
}

std::vector<RowTableInfo> row_tables(const StreamedModel &model) {
    std::vector<RowTableInfo> tables;
    for (const streaming::TableCandidate &table : model.store->placement.tables()) {
        const streaming::RowTableState state = model.store->row_table_state(table.name);
        std::string reason = why_not_streamed(table, state);
        tables.push_back({.name = table.name,
                          .bytes = table.bytes,
                          .streamed = reason.empty(),
                          .reason = std::move(reason),
                          .index_is_input = state.index_is_input,
                          .index_is_computed = state.index_is_computed});
    }
    return tables;
}

} // namespace sluice::streaming
