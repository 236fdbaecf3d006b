#include "planning/memory_needs.h"

#include "planning/paper_model.h"
#include "platform/memory_facts.h"

#include "llama-ext.h"

#include <algorithm>

namespace sluice::planning {

namespace {

/// `cpu_backends`: how many of the context's backends compute in plain CPU memory. On paper llama.cpp lays
/// the same compute buffer out for each of them; in a real context they share one.
void add_breakdown(const llama_context *context, size_t cpu_backends, MemoryNeeds &needs) {
    for (const auto &[type, bytes] : llama_get_memory_breakdown(context)) {
        needs.context_bytes += bytes.context;
        needs.compute_bytes += bytes.compute / cpu_backends;
        needs.dense_bytes += type == streaming::streamed_buffer_type() ? 0 : bytes.model;
    }
}

/// llama.cpp describes a graph in memory for as many nodes as the model may ever have. Beside the description
/// that it reserved with, which is there already, it keeps one of a graph with outputs: all that a session
/// computes.
uint64_t graph_description(llama_context *context) {
    const uint32_t sequences =
        llama_n_seq_max(context); // a graph of fewer is none where each has its own cache
    ggml_cgraph *graph = llama_graph_reserve(context, sequences, sequences, sequences);
    if (graph == nullptr) {
        return 0;
    }
    const auto nodes = static_cast<size_t>(ggml_graph_size(graph));
    return ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false);
}

/// llama.cpp reads a weight that it gives another layout into a buffer of its own first.
uint64_t largest_weight(const gguf::GgufDirectory &directory) {
    uint64_t bytes = 0;
    for (const gguf::TensorEntry &entry : directory.tensors()) {
        bytes = std::max(bytes, entry.bytes);
    }
    return bytes;
}

Status add_store(streaming::StreamedStore &store, MemoryNeeds &needs) {
    needs.dense_bytes += store.resident_dense_bytes();
    needs.load_peak_bytes = needs.program_bytes + needs.dense_bytes + store.placement.load_transient_bytes();
    needs.mapped_bytes = store.mapped_bytes();
    needs.expert_bytes = store.streamed_bytes();
    needs.row_table_bytes = store.row_table_bytes();
    for (const streaming::TableCandidate &table : store.placement.tables()) {
        needs.tables.push_back({.name = table.name,
                                .bytes = table.bytes,
                                .streamed = table.tie == streaming::Tie::None && table.refusal.empty()});
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
                                  const gguf::GgufDirectory &directory,
                                  const session::ContextParamsOf &params_of) {
    auto paper = PaperModel::make(model, session, streaming, directory, params_of);
    if (!paper) {
        return fail(paper.error());
    }
    llama_context *context = &(*paper)->context();
    MemoryNeeds needs;
    needs.context_tokens = llama_n_ctx(context);
    needs.program_bytes = platform::read_process_memory().resident.value_or(0);
    add_breakdown(context, (*paper)->cpu_backends(), needs);
    needs.workspace_bytes = graph_description(context);
    if (streaming::StreamedStore *store = (*paper)->store()) {
        needs.workspace_bytes += (*paper)->graph_workspace_bytes();
        if (auto added = add_store(*store, needs); !added) {
            return fail(added.error());
        }
    } else {
        needs.load_peak_bytes = needs.program_bytes + needs.dense_bytes + largest_weight(directory);
    }
    return needs;
}

} // namespace sluice::planning
