#include "session/session.h"

#include "platform/memory_facts.h"
#include "platform/processors.h"
#include "platform/reserved_memory.h"
#include "session/dense_weights.h"
#include "session/llama_log.h"
#include "session/output_check.h"
#include "session/session_state.h"
#include "streaming/device/intercepted_backend.h"
#include "streaming/device/streaming_device.h"

#include "chat.h"
#include "common.h"
#include "llama-ext.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace sluice {

namespace session {

int compute_threads(const SessionOptions &options) {
    return platform::threads_that_compute(options.threads, platform::read_processors());
}

llama_context_params context_params(const llama_model &model, const SessionOptions &options) {
    constexpr uint32_t kDefaultContext = 4096;
    llama_context_params params = llama_context_default_params();
    const auto trained = static_cast<uint32_t>(std::max(llama_model_n_ctx_train(&model), 1));
    params.n_ctx = options.context_tokens > 0 ? options.context_tokens : std::min(kDefaultContext, trained);
    params.n_ubatch = std::min(options.ubatch_tokens, params.n_ctx);
    params.n_batch = params.n_ubatch;
    // Buffers for the logits of a whole ubatch would be hundreds of MiB that nobody looks at.
    params.n_outputs_max = options.all_logits ? 0 : 1;
    params.n_threads = options.threads;
    params.n_threads_batch = options.threads;
    params.no_perf = true;
    return params;
}

namespace {

/// llama.cpp fills tables per token of context before it asks for the memory that would be refused.
Status check_context_size(const llama_context_params &params) {
    constexpr uint64_t kTableBytesPerToken = 64;
    const auto usable = platform::usable_memory(platform::read_memory_facts());
    if (usable && params.n_ctx * kTableBytesPerToken > *usable) {
        return fail(ErrorCode::OutOfMemory,
                    fmt::format("a context of {} tokens cannot fit in the {} MiB of memory that can be used",
                                params.n_ctx, *usable >> 20U));
    }
    return {};
}

Status make_context(SessionState &state) {
    const llama_context_params params = context_params(*state.model->llama, state.options);
    if (auto checked = check_context_size(params); !checked) {
        return checked;
    }
    if (state.options.on_node) {
        streaming::register_device(); // a resident model's graphs go past us otherwise
    }
    const LogScope log;
    const streaming::ContextScope backends;
    state.context.reset(llama_init_from_model(state.model->llama.get(), params));
    if (state.context == nullptr) {
        const std::string reason = log.reason();
        return fail(ErrorCode::OutOfMemory,
                    fmt::format("cannot create a context of {} tokens: {}", params.n_ctx,
                                reason.empty() ? "llama.cpp gave no reason" : reason));
    }
    // Our own pool: llama.cpp hands its pool to the plain CPU backend only, and without one ggml starts and
    // joins threads for every graph.
    ggml_threadpool_params pool = ggml_threadpool_params_default(state.options.threads);
    state.threadpool.reset(ggml_threadpool_new(&pool));
    if (state.threadpool == nullptr) {
        return fail(ErrorCode::OutOfMemory,
                    fmt::format("cannot start {} compute threads", state.options.threads));
    }
    llama_attach_threadpool(state.context.get(), state.threadpool.get(), state.threadpool.get());
    state.backends = backends.backends();
    for (ggml_backend_t backend : state.backends) {
        ggml_backend_cpu_set_threadpool(backend, state.threadpool.get());
        if (state.options.on_node) {
            streaming::trace_nodes(backend, [&state](const streaming::NodeTime &node) {
                state.options.on_node({.computed = state.computed + state.in_decode,
                                       .index = node.index,
                                       .op = node.op,
                                       .name = node.name,
                                       .seconds = node.seconds});
            });
        }
    }
    state.meter.watch_process(static_cast<bool>(state.options.on_sample));
    llama_set_abort_callback(
        state.context.get(),
        [](void *cancelled) { return static_cast<std::atomic<bool> *>(cancelled)->load(); },
        &state.cancelled);
    return {};
}

void measure_memory(SessionState &state) {
    for (const auto &[type, bytes] : llama_get_memory_breakdown(state.context.get())) {
        state.context_bytes += bytes.context;
        state.compute_bytes += bytes.compute;
        if (type != streaming::streamed_buffer_type()) {
            state.dense_bytes += bytes.model;
        }
    }
    if (state.model->streamed != nullptr) {
        state.dense_bytes += state.model->streamed->store->resident_dense_bytes();
    }
}

/// Tells the model's runtime what this session allows, and has it make the cache, so that one too small is an
/// error of ours and not of the first token.
Status prepare_runtime(SessionState &state) {
    const SessionOptions &options = state.options;
    const int most_threads = options.try_fewer_threads ? options.threads : 0;
    if (state.model->streamed == nullptr) {
        state.tuning.emplace(nullptr, nullptr, streaming::TuningOptions{}, most_threads);
        if (options.restless) {
            state.tuning->make_restless();
        }
        return {};
    }
    for (ggml_backend_t backend : state.backends) {
        streaming::let_choose_threads(backend, most_threads);
    }
    if (options.restless) {
        state.model->streamed->runtime->make_restless();
    }
    return state.model->streamed->runtime->make_cache(state.compute_bytes);
}

void choose_threads(SessionState &state, size_t tokens) {
    if (!state.tuning) {
        return;
    }
    if (const int threads = state.tuning->prepare(tokens == 1); threads > 0) {
        llama_set_n_threads(state.context.get(), threads, threads);
    }
}

Error decode_error(SessionState &state, int code, const LogScope &log) {
    for (ggml_backend_t backend : state.backends) {
        if (auto error = streaming::take_backend_error(backend)) {
            return *error;
        }
    }
    switch (code) {
    case 1:
        return {ErrorCode::InvalidArgument,
                fmt::format("the context of {} tokens is full", llama_n_ctx(state.context.get()))};
    case 2:
        return {ErrorCode::Cancelled, "cancelled"};
    case -2:
        return {ErrorCode::OutOfMemory, "out of memory while computing"};
    default:
        return {ErrorCode::Internal, fmt::format("llama.cpp could not compute the tokens: {}",
                                                 log.reason().empty() ? "no reason given" : log.reason())};
    }
}

/// Takes what was computed since `begin` out of the context's memory again, the failed ubatch and those
/// before it. A recurrent state can't always be taken back: then the sequence starts anew, and the error says
/// so.
Error take_back(SessionState &state, size_t begin, Error error) {
    llama_memory_t memory = llama_get_memory(state.context.get());
    const auto end = static_cast<llama_pos>(begin);
    const bool whole =
        memory == nullptr || llama_memory_seq_pos_max(memory, 0) + 1 == end ||
        (llama_memory_seq_rm(memory, 0, end, -1) && llama_memory_seq_pos_max(memory, 0) + 1 == end);
    state.last_ubatch = 0;
    state.position = begin;
    if (!whole) {
        llama_memory_clear(memory, true);
        state.position = 0;
        error.message += "; the sequence was lost and starts anew";
    }
    return error;
}

/// Runs at most one ubatch of tokens.
Status decode_ubatch(SessionState &state, std::span<const Token> tokens, Phase phase) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const bool wants_logits = state.options.all_logits || i + 1 == tokens.size();
        common_batch_add(batch, tokens[i], static_cast<llama_pos>(state.position + i), {0}, wants_logits);
    }
    if (state.cancelled) {
        llama_batch_free(batch);
        return fail(ErrorCode::Cancelled, "cancelled");
    }
    choose_threads(state, tokens.size());
    const LogScope log;
    state.last_ubatch = 0;
    state.in_decode = tokens.size();
    state.meter.begin_decode();
    const int code = llama_decode(state.context.get(), batch);
    TokenSample sample = state.meter.end_decode(*state.model, state.backends);
    const Status numbers = code == 0 ? check_outputs(state.context.get(), batch) : Status();
    if (!numbers) {
        clear_spoiled(state.context.get(), batch);
    }
    llama_batch_free(batch);
    if (code != 0) {
        return fail(decode_error(state, code, log));
    }
    if (!numbers) {
        return numbers;
    }
    state.position += tokens.size();
    state.last_ubatch = tokens.size();
    state.computed += tokens.size();
    sample.computed = state.computed;
    sample.phase = phase;
    sample.batch_tokens = static_cast<uint32_t>(tokens.size());
    if (tokens.size() == 1 && state.tuning) {
        state.tuning->learn(sample.time.wall - sample.time.between, false);
    }
    (phase == Phase::Prefill ? state.totals.prompt_time : state.totals.generate_time) += sample.time;
    if (state.options.on_sample) {
        state.options.on_sample(sample);
    }
    return {};
}

} // namespace

Status decode_tokens(SessionState &state, std::span<const Token> tokens, Phase phase,
                     const std::function<void(size_t, size_t)> &progress) {
    const uint32_t context = llama_n_ctx(state.context.get());
    if (state.position + tokens.size() > context) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} tokens do not fit the context of {} tokens, of which {} are taken",
                                tokens.size(), context, state.position));
    }
    const Token vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(state.model->llama.get()));
    for (const Token token : tokens) {
        if (token < 0 || token >= vocabulary) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("token {} is not in the vocabulary of {}", token, vocabulary));
        }
    }
    const size_t step = llama_n_ubatch(state.context.get());
    const size_t begin = state.position;
    for (size_t done = 0; done < tokens.size(); done += step) {
        const auto part = tokens.subspan(done, std::min(step, tokens.size() - done));
        if (auto decoded = decode_ubatch(state, part, phase); !decoded) {
            return fail(take_back(state, begin, decoded.error()));
        }
        if (progress) {
            progress(done + part.size(), tokens.size());
        }
    }
    return {};
}

} // namespace session

Result<Session> Session::create(Model &model, const SessionOptions &options) {
    if (options.ubatch_tokens == 0) {
        return fail(ErrorCode::InvalidArgument, "a ubatch must hold at least one token");
    }
    if (options.threads > GGML_MAX_N_THREADS) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} compute threads are more than the {} that ggml can use", options.threads,
                                GGML_MAX_N_THREADS));
    }
    try {
        auto state = std::make_unique<session::SessionState>();
        state->model = &model.state();
        state->options = options;
        state->options.threads = session::compute_threads(options);
        if (auto made = session::make_context(*state); !made) {
            return fail(made.error());
        }
        session::measure_memory(*state);
        if (auto made = session::prepare_runtime(*state); !made) {
            return fail(made.error());
        }
        session::lock_dense_weights(*state->model);
        platform::trim_heap(); // loading leaves free heap behind, and from here on memory is filled as
                               // planned
        return Session(std::move(state));
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, "out of memory while creating a context");
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot create a context: {}", error.what()));
    }
}

Session::Session(std::unique_ptr<session::SessionState> state) : state_(std::move(state)) {
}
Session::~Session() = default;
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;

Status Session::decode(std::span<const Token> tokens, const std::function<void(size_t, size_t)> &progress) {
    const session::CancelledOnce forgotten(*state_);
    try {
        state_->meter.begin_call(*state_->model);
        const Phase phase = tokens.size() == 1 ? Phase::Decode : Phase::Prefill;
        return session::decode_tokens(*state_, tokens, phase, progress);
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot decode: {}", error.what()));
    }
}

std::span<const float> Session::logits() const {
    const float *data = state_->last_ubatch == 0 ? nullptr : llama_get_logits_ith(state_->context.get(), -1);
    return data == nullptr ? std::span<const float>{} : std::span<const float>{data, vocab_size()};
}

std::span<const float> Session::logits_at(size_t index) const {
    if (index >= state_->last_ubatch || (!state_->options.all_logits && index + 1 != state_->last_ubatch)) {
        return {};
    }
    const float *data = llama_get_logits_ith(state_->context.get(), static_cast<int32_t>(index));
    return data == nullptr ? std::span<const float>{} : std::span<const float>{data, vocab_size()};
}

Result<StopReason> Session::generate(std::span<const Token> prompt, int limit,
                                     const SamplingOptions &sampling,
                                     const std::function<void(std::string_view)> &on_text,
                                     const std::function<void(size_t, size_t)> &on_prefill) {
    const session::CancelledOnce forgotten(*state_);
    try {
        state_->meter.begin_call(*state_->model);
        return session::generate(*state_, prompt, limit, sampling, on_text, on_prefill);
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot generate: {}", error.what()));
    }
}

void Session::cancel() {
    state_->cancelled = true;
}

void Session::reset() {
    llama_memory_clear(llama_get_memory(state_->context.get()), true);
    state_->position = 0;
    state_->last_ubatch = 0;
    state_->cancelled = false;
}

Result<std::vector<Token>> Session::tokenize(std::string_view text, bool add_special,
                                             bool parse_special) const {
    const llama_vocab *vocab = llama_model_get_vocab(state_->model->llama.get());
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
        return fail(
            ErrorCode::Unsupported,
            fmt::format("{} has no vocabulary, so it can't read or write text", state_->model->info.path));
    }
    try {
        std::vector<Token> tokens = common_tokenize(vocab, std::string(text), add_special, parse_special);
        if (add_special && llama_vocab_get_add_eos(vocab) && !tokens.empty() &&
            tokens.back() == llama_vocab_eos(vocab)) {
            tokens.pop_back(); // the text is to go on
        }
        return tokens;
    } catch (const std::exception &error) {
        return fail(ErrorCode::InvalidArgument, fmt::format("cannot tokenize the text: {}", error.what()));
    }
}

Result<std::string> Session::format_chat(std::span<const ChatMessage> messages) const {
    if (state_->model->templates == nullptr) {
        return fail(ErrorCode::Unsupported, fmt::format("{} has no chat template", state_->model->info.path));
    }
    try {
        common_chat_templates_inputs inputs;
        for (const ChatMessage &message : messages) {
            common_chat_msg converted;
            converted.role = message.role;
            converted.content = message.content;
            inputs.messages.push_back(converted);
        }
        return common_chat_templates_apply(state_->model->templates.get(), inputs).prompt;
    } catch (const std::exception &error) {
        return fail(ErrorCode::Unsupported,
                    fmt::format("the model's chat template failed: {}", error.what()));
    }
}

size_t Session::vocab_size() const {
    return static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(state_->model->llama.get())));
}

size_t Session::position() const {
    return state_->position;
}

uint32_t Session::context_tokens() const {
    return llama_n_ctx(state_->context.get());
}

int Session::threads() const {
    return state_->options.threads;
}

DenseResidency Session::dense_residency() const {
    return session::dense_residency(*state_->model);
}

RunStats Session::stats() const {
    RunStats stats = state_->totals;
    stats.dense_bytes = state_->dense_bytes;
    stats.context_bytes = state_->context_bytes;
    stats.compute_bytes = state_->compute_bytes;
    stats.peak_resident_bytes = platform::read_process_memory().peak_resident;
    if (state_->tuning) {
        stats.settled = state_->tuning->outcome();
        stats.tokens_tried = state_->tuning->tokens_tried();
    } else {
        stats.settled = state_->model->streamed->runtime->settled();
        stats.tokens_tried = state_->model->streamed->runtime->tokens_tried();
        stats.experts = streaming::expert_stats(*state_->model->streamed);
        stats.experts.lookahead.on = state_->model->streamed->runtime->looks_ahead();
        stats.rows = streaming::row_stats(*state_->model->streamed);
    }
    return stats;
}

} // namespace sluice
