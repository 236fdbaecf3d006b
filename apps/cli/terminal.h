// The terminal: progress on it, Ctrl-C from it.
#pragma once

#include <cstddef>
#include <string>

namespace sluice {
class Session;
}

namespace sluice::cli {

/// One line on stderr that rewrites itself, shown only on a terminal. Single-threaded.
class ProgressLine {
public:
    ProgressLine();
    ~ProgressLine() { clear(); }
    ProgressLine(const ProgressLine &) = delete;
    ProgressLine &operator=(const ProgressLine &) = delete;

    /// Shows "<what> [####    ] 43 %" if that differs from what is shown.
    void show(const std::string &what, double fraction);

    /// Removes the line.
    void clear();

private:
    bool enabled_;
    std::string shown_;
};

/// Ctrl-C while it lives: the first one asks the running work to stop, the second ends the process. One at a
/// time.
class InterruptGuard {
public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard &) = delete;
    InterruptGuard &operator=(const InterruptGuard &) = delete;

    /// From now on an interrupt also cancels `session` (null: none). The session outlives its being watched.
    void watch(Session *session);

    /// Whether Ctrl-C was pressed since the start or the last acknowledge().
    [[nodiscard]] bool interrupted() const;

    /// Forgets the interrupt, so that the next Ctrl-C is a first one again.
    void acknowledge();
};

bool stdin_is_terminal();

} // namespace sluice::cli
