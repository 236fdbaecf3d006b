// What stands behind a Session handle.
#pragma once

#include "session/model_state.h"
#include "session/session.h"
#include "session/token_meter.h"
#include "streaming/runtime/run_tuning.h"

#include "ggml-cpu.h"
#include "llama.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::session {

struct ContextDeleter {
    void operator()(llama_context *context) const { llama_free(context); }
};
struct ThreadpoolDeleter {
    void operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }
};

struct SessionState {
    ModelState *model = nullptr;
    SessionOptions options;
    std::unique_ptr<ggml_threadpool, ThreadpoolDeleter> threadpool; ///< outlives the context that uses it
    std::unique_ptr<llama_context, ContextDeleter> context;
    std::vector<ggml_backend_t> backends; ///< the context's intercepted backends; it owns them
    std::atomic<bool> cancelled{false};
    std::optional<streaming::RunTuning>
        tuning;             ///< of threads, on a model in memory; else the runtime decides
    size_t position = 0;    ///< tokens in the sequence
    uint64_t computed = 0;  ///< tokens in all, forgotten ones included
    size_t in_decode = 0;   ///< tokens of the ubatch that computes
    size_t last_ubatch = 0; ///< tokens of the last successful ubatch; 0: no logits
    RunStats totals;        ///< the parts that the session itself counts
    TokenMeter meter;
    uint64_t context_bytes = 0;
    uint64_t compute_bytes = 0;
    uint64_t dense_bytes = 0;
};

/// A call that may be cancelled: when it ends, however it does, a wish to cancel it has been met.
class CancelledOnce {
public:
    explicit CancelledOnce(SessionState &state) : state_(state) {}
    ~CancelledOnce() { state_.cancelled = false; }
    CancelledOnce(const CancelledOnce &) = delete;
    CancelledOnce &operator=(const CancelledOnce &) = delete;

private:
    SessionState &state_;
};

/// Threads that compute: as many as are asked for and can be had, or as suit the machine.
int compute_threads(const SessionOptions &options);

/// llama.cpp's parameters for a session of `options` on `model`.
llama_context_params context_params(const llama_model &model, const SessionOptions &options);

/// The same question put to who will make the context: context_params() for a session, another answer where a
/// server does.
using ContextParamsOf = std::function<llama_context_params(const llama_model &, const SessionOptions &)>;

/// Session::decode without forgetting an earlier cancel(): several calls can make up one cancellable piece of
/// work.
Status decode_tokens(SessionState &state, std::span<const Token> tokens, Phase phase,
                     const std::function<void(size_t, size_t)> &progress);

/// Draws tokens after a prefilled prompt; see Session::generate.
Result<StopReason> generate(SessionState &state, std::span<const Token> prompt, int limit,
                            const SamplingOptions &sampling,
                            const std::function<void(std::string_view)> &on_text,
                            const std::function<void(size_t, size_t)> &on_prefill);

} // namespace sluice::session
