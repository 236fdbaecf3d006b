#include "terminal.h"

#include "session/session.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#ifdef _WIN32
#include <io.h>
#define SLUICE_ISATTY(file) _isatty(_fileno(file))
#else
#include <unistd.h>
#define SLUICE_ISATTY(file) isatty(fileno(file))
#endif

namespace sluice::cli {

namespace {

// A signal handler can reach nothing else.
std::atomic<bool> interrupt_seen{false};
std::atomic<Session *> watched_session{nullptr};

extern "C" void on_interrupt(int signal) {
    if (interrupt_seen.exchange(true)) {
        std::signal(signal, SIG_DFL);
        std::raise(signal);
        return;
    }
    std::signal(signal, on_interrupt);
    if (Session *session = watched_session.load()) {
        session->cancel();
    }
}

} // namespace

ProgressLine::ProgressLine() : enabled_(SLUICE_ISATTY(stderr) != 0) {
}

void ProgressLine::show(const std::string &what, double fraction) {
    if (!enabled_) {
        return;
    }
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(fraction * kWidth);
    std::string line = what + " [" + std::string(static_cast<size_t>(filled), '#') +
                       std::string(static_cast<size_t>(kWidth - filled), ' ') + "] " +
                       std::to_string(static_cast<int>(fraction * 100)) + " %";
    if (line != shown_) {
        std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
        std::fflush(stderr);
        shown_ = std::move(line);
    }
}

void ProgressLine::clear() {
    if (!shown_.empty()) {
        std::fputs("\r\x1b[K", stderr);
        std::fflush(stderr);
        shown_.clear();
    }
}

InterruptGuard::InterruptGuard() {
    interrupt_seen = false;
    std::signal(SIGINT, on_interrupt);
}

InterruptGuard::~InterruptGuard() {
    watched_session = nullptr;
    std::signal(SIGINT, SIG_DFL);
}

void InterruptGuard::watch(Session *session) {
    watched_session = session;
}

bool InterruptGuard::interrupted() const {
    return interrupt_seen;
}

void InterruptGuard::acknowledge() {
    interrupt_seen = false;
}

bool stdin_is_terminal() {
    return SLUICE_ISATTY(stdin) != 0;
}

} // namespace sluice::cli
