#include "session/session_state.h"

#include "common.h"
#include "sampling.h"

#include <chrono>

namespace sluice::session {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

common_sampler_ptr make_sampler(const SessionState &state, const SamplingOptions &options) {
    common_params_sampling params;
    params.temp = options.temperature;
    params.top_k = options.top_k;
    params.top_p = options.top_p;
    params.min_p = options.min_p;
    params.penalty_repeat = options.repeat_penalty;
    params.penalty_last_n = options.repeat_last_n;
    params.seed = options.seed.value_or(LLAMA_DEFAULT_SEED);
    params.no_perf = true;
    return common_sampler_ptr(common_sampler_init(state.model->llama.get(), params));
}

/// Length of the longest prefix of `text` that does not end inside a UTF-8 character.
size_t whole_utf8(std::string_view text) {
    for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0U) == 0x80U) {
            continue; // a continuation byte: look further back for the lead
        }
        const size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
        return length > back ? text.size() - back : text.size();
    }
    return text.size();
}

/// Passes pieces on as soon as they end between characters.
class TextStream {
public:
    explicit TextStream(const std::function<void(std::string_view)> &sink) : sink_(sink) {}

    void add(std::string_view piece) {
        pending_ += piece;
        emit(whole_utf8(pending_));
    }

    void flush() { emit(pending_.size()); }

private:
    void emit(size_t length) {
        if (length > 0 && sink_) {
            sink_(std::string_view(pending_).substr(0, length));
        }
        pending_.erase(0, length);
    }

    const std::function<void(std::string_view)> &sink_;
    std::string pending_;
};

/// Adds what happened to the expert cache between two moments to the session's generation totals.
void count_generation(SessionState &state, const ExpertStats &before) {
    const ExpertStats after = streaming::expert_stats(*state.model->streamed);
    state.totals.generate_bytes_read += after.bytes_read - before.bytes_read;
    state.totals.generate_hits += after.hits - before.hits;
    state.totals.generate_misses += after.misses - before.misses;
}

Result<StopReason> draw_tokens(SessionState &state, common_sampler *sampler, int limit, TextStream &text) {
    const llama_vocab *vocab = llama_model_get_vocab(state.model->llama.get());
    for (int drawn = 0; limit < 0 || drawn < limit; ++drawn) {
        if (state.cancelled) {
            return StopReason::Cancelled;
        }
        const Token token = common_sampler_sample(sampler, state.context.get(), -1);
        common_sampler_accept(sampler, token, true);
        if (llama_vocab_is_eog(vocab, token)) {
            return StopReason::EndOfText;
        }
        text.add(common_token_to_piece(state.context.get(), token, false));
        ++state.totals.generated_tokens;
        if (state.position >= llama_n_ctx(state.context.get())) {
            return StopReason::ContextFull;
        }
        if (drawn + 1 == limit) {
            break;
        }
        if (auto decoded = decode_tokens(state, {&token, 1}, Phase::Decode, {}); !decoded) {
            if (decoded.error().code == ErrorCode::Cancelled) {
                return StopReason::Cancelled;
            }
            return fail(decoded.error());
        }
    }
    return StopReason::TokenLimit;
}

} // namespace

Result<StopReason> generate(SessionState &state, std::span<const Token> prompt, int limit,
                            const SamplingOptions &sampling,
                            const std::function<void(std::string_view)> &on_text,
                            const std::function<void(size_t, size_t)> &on_prefill) {
    if (prompt.empty()) {
        return fail(ErrorCode::InvalidArgument, "the prompt is empty");
    }
    const common_sampler_ptr sampler = make_sampler(state, sampling);
    if (sampler == nullptr) {
        return fail(ErrorCode::InvalidArgument, "these sampling options cannot be used together");
    }
    const auto prefill_start = Clock::now();
    if (auto decoded = decode_tokens(state, prompt, Phase::Prefill, on_prefill); !decoded) {
        if (decoded.error().code == ErrorCode::Cancelled) {
            return StopReason::Cancelled;
        }
        return fail(decoded.error());
    }
    state.totals.prompt_tokens += prompt.size();
    state.totals.prompt_seconds += seconds_since(prefill_start);
    for (const Token token : prompt) {
        common_sampler_accept(sampler.get(), token, false);
    }

    const ExpertStats before =
        state.model->streamed != nullptr ? streaming::expert_stats(*state.model->streamed) : ExpertStats{};
    const auto start = Clock::now();
    TextStream text(on_text);
    auto reason = draw_tokens(state, sampler.get(), limit, text);
    text.flush();
    state.totals.generate_seconds += seconds_since(start);
    state.totals.generate_time += state.meter.since_last(); // drawing what was not computed any more
    if (state.model->streamed != nullptr) {
        count_generation(state, before);
    }
    return reason;
}

} // namespace sluice::session
