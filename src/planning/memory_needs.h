// What a run would need, learnt without allocating it: llama.cpp loads the model's description only, lays out
// a context, and reserves its graphs on paper.
#pragma once

#include "base/error.h"
#include "gguf/gguf_directory.h"
#include "options/options.h"
#include "session/session_state.h"

#include <cstdint>
#include <vector>

namespace sluice::planning {

/// A table that rows could be, or are, gathered from; see RowTableInfo.
struct TableNeed {
    std::string name;
    uint64_t bytes = 0;
    bool streamed = false;
};

/// Bytes, unless named otherwise, of one way to run a model (streamed or not, with rows or without).
struct MemoryNeeds {
    uint64_t dense_bytes = 0;   ///< weights in anonymous memory, repacked sizes where repacked
    uint64_t mapped_bytes = 0;  ///< weights mapped from the file
    uint64_t context_bytes = 0; ///< KV cache and other per-sequence state
    uint64_t compute_bytes = 0; ///< compute buffers
    uint64_t workspace_bytes =
        0; ///< a graph's description, converted activations, staged weights, ggml's own
    /// The process while it loads: llama.cpp holds the largest weight twice for a moment.
    uint64_t load_peak_bytes = 0;
    uint64_t program_bytes = 0; ///< this process with vocabulary and tensor descriptions, before any weight
    uint64_t expert_bytes = 0;  ///< all experts' slices
    uint64_t cache_minimum_bytes = 0;
    uint64_t cache_useful_bytes = 0; ///< the cache that holds every slice
    uint64_t working_set_bytes = 0;  ///< slices that one token touches
    uint64_t row_table_bytes = 0;    ///< tables left in the file
    uint64_t beside_bytes = 0;       ///< what the process holds beside the model and its context
    uint32_t context_tokens = 0;     ///< what SessionOptions::context_tokens came to
    std::vector<TableNeed> tables;

    /// What is there whatever the size of the expert cache and the row window.
    [[nodiscard]] uint64_t fixed_bytes() const {
        return dense_bytes + mapped_bytes + context_bytes + compute_bytes + workspace_bytes + program_bytes +
               beside_bytes;
    }
};

/// Tries `model` and `session` out as if streaming were forced (`streaming`) or off. Takes about as long as
/// reading the vocabulary. Must not run while this thread loads a model or makes a context.
/// Errors: as Model::load and Session::create.
Result<MemoryNeeds> measure_needs(const ModelOptions &model, const SessionOptions &session, bool streaming,
                                  const gguf::GgufDirectory &directory,
                                  const session::ContextParamsOf &params_of = session::context_params);

} // namespace sluice::planning
