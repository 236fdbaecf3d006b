// A model and a context on paper: llama.cpp loads the description only, and lays buffers and graphs out
// without allocating them. Sluice's device takes part as in a real load.
#pragma once

#include "backend/load_target.h"
#include "backend/streaming_device.h"
#include "engine/llama_log.h"
#include "engine/session_state.h"
#include "model/gguf_directory.h"
#include "sluice/error.h"
#include "sluice/options.h"

#include <cstddef>
#include <memory>
#include <optional>

namespace sluice::engine {

/// Takes about as long to make as reading the vocabulary. While it lives, its thread must neither load a
/// model nor make a context.
class PaperModel {
public:
    /// Tries `model` and `session` out as if streaming were forced (`streaming`) or off, with the context
    /// that `params_of` asks for. `directory` outlives the result. Errors: as Model::load and
    /// Session::create.
    static Result<std::unique_ptr<PaperModel>> make(const ModelOptions &model, const SessionOptions &session,
                                                    bool streaming, const model::GgufDirectory &directory,
                                                    const ContextParamsOf &params_of = context_params);

    PaperModel(const PaperModel &) = delete;
    PaperModel &operator=(const PaperModel &) = delete;
    ~PaperModel() = default;

    /// What was streamed; null if nothing was to be.
    [[nodiscard]] backend::StreamedStore *store() const { return store_.get(); }
    [[nodiscard]] llama_model &model() const { return *model_; }
    [[nodiscard]] llama_context &context() const { return *context_; }
    /// How many of the context's backends compute in plain CPU memory.
    [[nodiscard]] size_t cpu_backends() const { return cpu_backends_; }

private:
    PaperModel() = default;
    Status load(const ModelOptions &options, const model::GgufDirectory &directory);
    Status lay_out(const llama_context_params &params);

    LogScope log_;
    std::unique_ptr<backend::StreamedStore> store_;
    std::unique_ptr<llama_model, LlamaModelDeleter> model_;
    std::unique_ptr<llama_context, ContextDeleter> context_;
    std::optional<backend::LoadScope> scope_; ///< ends first: the store has looked at the model's tensors
    size_t cpu_backends_ = 1;
};

} // namespace sluice::engine
