#include "engine/memory_needs.h"

#include "engine/paper_model.h"
#include "storage/memory_facts.h"

#include "llama-ext.h"

namespace sluice::engine {

namespace {

/// `cpu_backends`: how many of the context's backends compute in plain CPU memory. On paper llama.cpp lays
/// the same compute buffer out for each of them; in a real context they share one.
void add_breakdown(const llama_context *context, size_t cpu_backends, MemoryNeeds &needs) {
    for (const auto &[type, bytes] : llama_get_memory_breakdown(context)) {
        needs.context_bytes += bytes.context;
        needs.compute_bytes += bytes.compute / cpu_backends;
        needs.dense_bytes += type == backend::streamed_buffer_type() ? 0 : bytes.model;
    }
}

Status add_store(backend::StreamedStore &store, MemoryNeeds &needs) {
    needs.dense_bytes += store.resident_dense_bytes();
    needs.load_peak_bytes = needs.program_bytes + needs.dense_bytes + store.placement.load_transient_bytes();
    needs.mapped_bytes = store.mapped_bytes();
    needs.workspace_bytes = store.graph_workspace_bytes();
    needs.expert_bytes = store.streamed_bytes();
    needs.row_table_bytes = store.row_table_bytes();
    for (const backend::TableCandidate &table : store.placement.tables()) {
        needs.tables.push_back({.name = table.name,
                                .bytes = table.bytes,
                                .streamed = table.tie == backend::Tie::None && table.refusal.empty()});
    }
    if (store.has_banks()) {
        const auto cache = store.cache_needs();
        if (!cache) {
            return fail(cache.error());
        }
        needs.cache_minimum_bytes = cache->unlimited.minimum_bytes;
        needs.cache_useful_bytes = cache->unlimited.useful_bytes;
        needs.working_set_bytes = cache->working_set_bytes;
    }
    return {};
}

} // namespace

Result<MemoryNeeds> measure_needs(const ModelOptions &model, const SessionOptions &session, bool streaming,
                                  const model::GgufDirectory &directory) {
    auto paper = PaperModel::make(model, session, streaming, directory);
    if (!paper) {
        return fail(paper.error());
    }
    const llama_context *context = &(*paper)->context();
    MemoryNeeds needs;
    needs.context_tokens = llama_n_ctx(context);
    needs.program_bytes = storage::read_process_memory().resident.value_or(0);
    add_breakdown(context, (*paper)->cpu_backends(), needs);
    if (backend::StreamedStore *store = (*paper)->store()) {
        if (auto added = add_store(*store, needs); !added) {
            return fail(added.error());
        }
    }
    return needs;
}

} // namespace sluice::engine
