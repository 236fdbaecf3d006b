// A context on a model: feed tokens, read logits, or generate text.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "options/options.h"
#include "session/model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

namespace session {
struct SessionState;
}

using Token = int32_t;

/// One turn of a conversation.
struct ChatMessage {
    std::string role; ///< "system", "user" or "assistant"
    std::string content;
};

/// Why generation ended.
enum class StopReason { EndOfText, TokenLimit, ContextFull, Cancelled };

/// Not thread-safe, except cancel().
class Session {
public:
    /// Makes a context and, when the model streams and has none yet, its expert cache.
    /// Errors: OutOfMemory (context or cache does not fit, or the cache is below the model's minimum),
    /// InvalidArgument.
    static Result<Session> create(Model &model, const SessionOptions &options);

    ~Session();
    Session(Session &&) noexcept;
    Session &operator=(Session &&) noexcept;

    /// Runs `tokens` at the end of the sequence, in ubatches. On success logits() are those after the last
    /// one. On failure the sequence is as it was before the call (where a recurrent state can't be taken back
    /// it starts anew, and the message says so), no logits are valid, and the session stays usable.
    /// `progress` (may be empty) is called with tokens done and in all. Errors: Io (a read failed; names
    /// file, tensor, offset, cause), Cancelled, InvalidArgument (context full), InvalidFormat (the logits are
    /// no numbers; the sequence starts anew).
    Status decode(std::span<const Token> tokens, const std::function<void(size_t, size_t)> &progress = {});

    /// Logits of the last token decoded, vocab_size() floats; valid until the next decode().
    [[nodiscard]] std::span<const float> logits() const;

    /// Logits of token `index` of the last ubatch; needs SessionOptions::all_logits.
    [[nodiscard]] std::span<const float> logits_at(size_t index) const;

    /// Prefills `prompt` and draws up to `limit` tokens (negative: until the context is full). Each piece of
    /// text goes to `on_text` as soon as it is whole UTF-8. Cancelled in the prompt, the sequence is as it
    /// was before; later, it ends with the last token that was computed. Errors as decode().
    Result<StopReason> generate(std::span<const Token> prompt, int limit, const SamplingOptions &sampling,
                                const std::function<void(std::string_view)> &on_text,
                                const std::function<void(size_t, size_t)> &on_prefill = {});

    /// Stops the decode() or generate() that runs, soon, or the next one if none does. A call that ends
    /// forgets it. Callable from any thread and from a signal handler.
    void cancel();

    /// Forgets the sequence, and a cancel() that no call has met; the expert cache stays warm.
    void reset();

    /// Text to tokens. `add_special`: with the model's own beginning-of-text, and never an end-of-text;
    /// markup of control tokens is honoured when `parse_special`. Errors: Unsupported if the model has no
    /// vocabulary.
    Result<std::vector<Token>> tokenize(std::string_view text, bool add_special, bool parse_special) const;

    /// The prompt text for a conversation, by the model's chat template, ending where the answer begins.
    /// Errors: Unsupported if there is no usable template.
    Result<std::string> format_chat(std::span<const ChatMessage> messages) const;

    [[nodiscard]] size_t vocab_size() const;
    [[nodiscard]] size_t position() const; ///< tokens in the sequence
    [[nodiscard]] uint32_t context_tokens() const;
    [[nodiscard]] int threads() const;

    /// Totals of this session and of its model's cache.
    [[nodiscard]] RunStats stats() const;

    /// Where the model's dense weights are now. Looks at thousands of pages, a few milliseconds: not for
    /// every token.
    [[nodiscard]] DenseResidency dense_residency() const;

private:
    explicit Session(std::unique_ptr<session::SessionState> state);
    std::unique_ptr<session::SessionState> state_;
};

} // namespace sluice
