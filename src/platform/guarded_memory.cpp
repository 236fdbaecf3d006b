#include "platform/guarded_memory.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace sluice::platform {

namespace {

struct Range {
    std::atomic<uintptr_t> begin{0}; ///< 0: free
    std::atomic<uintptr_t> end{0};
};

// A signal handler can neither lock nor allocate, nor be told who it works for.
std::array<Range, 1024> ranges;
struct sigaction before_segv;
struct sigaction before_bus;

constexpr char kSentence[] =
    "sluice: streamed weights were read where nothing had been fetched; the computation would have gone on "
    "with zeros (something other than Sluice's own backend computes with them)\n";

void hand_on(int signal, siginfo_t *info, void *context) {
    const struct sigaction &before = signal == SIGBUS ? before_bus : before_segv;
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        ::sigaction(signal, &before, nullptr); // the fault happens again, and ends the process
    }
}

void on_fault(int signal, siginfo_t *info, void *context) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const Range &range : ranges) {
        const uintptr_t begin = range.begin;
        if (begin != 0 && address >= begin && address < range.end) {
            [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1);
            break;
        }
    }
    hand_on(signal, info, context);
}

void install() {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGSEGV, &action, &before_segv);
    ::sigaction(SIGBUS, &action, &before_bus); // what some systems send
}

} // namespace

GuardedMemory::GuardedMemory(std::span<const std::byte> range) {
    static std::once_flag once;
    std::call_once(once, install);
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < ranges.size() && place_ < 0; ++i) {
        if (ranges[i].begin == 0) {
            ranges[i].end = reinterpret_cast<uintptr_t>(range.data()) + range.size();
            ranges[i].begin = reinterpret_cast<uintptr_t>(range.data());
            place_ = static_cast<int>(i);
        }
    }
}

GuardedMemory::~GuardedMemory() {
    if (place_ >= 0) {
        ranges[static_cast<size_t>(place_)].begin = 0;
    }
}

GuardedMemory::GuardedMemory(GuardedMemory &&other) noexcept : place_(std::exchange(other.place_, -1)) {
}

GuardedMemory &GuardedMemory::operator=(GuardedMemory &&other) noexcept {
    std::swap(place_, other.place_);
    return *this;
}

} // namespace sluice::platform
