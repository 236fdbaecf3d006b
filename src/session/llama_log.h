// llama.cpp's log, turned into error sentences instead of a flood on the terminal.
#pragma once

#include <string>

namespace sluice::session {

/// Routes llama.cpp's log through us: errors are kept for the LogScope of the thread that caused them,
/// warnings and everything else are dropped. Idempotent, thread-safe.
void capture_llama_log();

/// While it lives, collects what llama.cpp logs as errors on this thread. Scopes on one thread do not nest.
class LogScope {
public:
    LogScope();
    ~LogScope();
    LogScope(const LogScope &) = delete;
    LogScope &operator=(const LogScope &) = delete;

    /// The first error line that says something, without llama.cpp's function prefix; empty if there was
    /// none.
    [[nodiscard]] std::string reason() const;

    /// For the log callback: one more piece of an error line.
    void append(const char *text) { text_ += text; }

private:
    std::string text_;
};

} // namespace sluice::session
