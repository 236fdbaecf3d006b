// A model and a context on paper: llama.cpp loads the description only, and lays buffers and graphs out
// without allocating them. Sluice's device takes part as in a real load.
#pragma once

#include "base/error.h"
#include "gguf/gguf_directory.h"
#include "options/options.h"
#include "planning/graph_workspace.h"
#include "session/llama_log.h"
#include "session/session_state.h"
#include "streaming/device/streaming_device.h"
#include "streaming/weights/load_target.h"

#include <cstddef>
#include <memory>
#include <optional>

namespace sluice::planning {

/// Takes about as long to make as reading the vocabulary. While it lives, its thread must neither load a
/// model nor make a context.
class PaperModel {
public:
    /// Tries `model` and `session` out as if streaming were forced (`streaming`) or off, with the context
    /// that `params_of` asks for. `directory` outlives the result. Errors: as Model::load and
    /// Session::create.
    static Result<std::unique_ptr<PaperModel>>
    make(const ModelOptions &model, const SessionOptions &session, bool streaming,
         const gguf::GgufDirectory &directory,
         const session::ContextParamsOf &params_of = session::context_params);

    PaperModel(const PaperModel &) = delete;
    PaperModel &operator=(const PaperModel &) = delete;
    ~PaperModel() = default;

    /// What was streamed; null if nothing was to be.
    [[nodiscard]] streaming::StreamedStore *store() const { return store_.get(); }
    /// Largest memory that one graph needs beside its buffers: converted activations, staged weights, the CPU
    /// backend's own workspace. Known if something was streamed. Bytes.
    [[nodiscard]] uint64_t graph_workspace_bytes() const { return workspace_.bytes(); }
    [[nodiscard]] llama_model &model() const { return *model_; }
    [[nodiscard]] llama_context &context() const { return *context_; }
    /// How many of the context's backends compute in plain CPU memory.
    [[nodiscard]] size_t cpu_backends() const { return cpu_backends_; }

private:
    PaperModel() = default;
    Status load(const ModelOptions &options, const gguf::GgufDirectory &directory);
    Status lay_out(const llama_context_params &params);

    session::LogScope log_;
    GraphWorkspace workspace_; ///< outlives the store, which tells it of nodes
    std::unique_ptr<streaming::StreamedStore> store_;
    std::unique_ptr<llama_model, session::LlamaModelDeleter> model_;
    std::unique_ptr<llama_context, session::ContextDeleter> context_;
    std::optional<streaming::LoadScope> scope_; ///< ends first: the store has looked at the model's tensors
    size_t cpu_backends_ = 1;
};

} // namespace sluice::planning
