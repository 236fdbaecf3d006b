#include "engine/memory_needs.h"

#include "backend/streaming_device.h"
#include "engine/llama_log.h"
#include "engine/session_state.h"
#include "storage/memory_facts.h"

#include "llama-ext.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

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
    capture_llama_log();
    init_llama();
    const LogScope log;
    std::unique_ptr<backend::StreamedStore> store;
    std::optional<backend::LoadScope> scope;
    if (streaming) {
        backend::register_device();
        backend::StoreOptions options = store_options(model, expert_access(model, directory));
        options.dry = true;
        options.threads = session.threads > 0 ? session.threads : storage::physical_cores();
        auto made = backend::StreamedStore::create(directory, std::move(options));
        if (!made) {
            return fail(made.error());
        }
        store = std::move(*made);
        scope.emplace(*store);
    }
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = model.repack;
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    const std::unique_ptr<llama_model, LlamaModelDeleter> loaded(
        llama_model_load_from_file(model.path.c_str(), params));
    if (loaded == nullptr) {
        return fail(ErrorCode::InvalidFormat, fmt::format("cannot load {}: {}", model.path, log.reason()));
    }
    const llama_context_params context_options = context_params(*loaded, session);
    const backend::ContextScope backends;
    const std::unique_ptr<llama_context, ContextDeleter> context(
        llama_init_from_model(loaded.get(), context_options));
    if (context == nullptr) {
        return fail(ErrorCode::OutOfMemory, fmt::format("cannot lay out a context of {} tokens: {}",
                                                        context_options.n_ctx, log.reason()));
    }
    MemoryNeeds needs;
    needs.context_tokens = llama_n_ctx(context.get());
    needs.program_bytes = storage::read_process_memory().resident.value_or(0);
    add_breakdown(context.get(), 1 + backends.backends().size(), needs);
    if (store != nullptr) {
        if (auto added = add_store(*store, needs); !added) {
            return fail(added.error());
        }
    }
    return needs;
}

} // namespace sluice::engine
