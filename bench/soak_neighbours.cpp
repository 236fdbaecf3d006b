#include "soak_neighbours.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::bench {

namespace {

constexpr uint32_t kSecondsAtMost = 60; // and then it goes by itself

/// In the child: what is allowed there is little, since the parent has threads.
pid_t start(uint64_t bytes) {
    const pid_t child = ::fork();
    if (child != 0) {
        return child;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kSecondsAtMost);
    if (bytes > 0) {
        auto *memory = static_cast<char *>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        constexpr uint64_t kPage = 4096;
        for (uint64_t at = 0; memory != MAP_FAILED && at < bytes; at += kPage) {
            memory[at] = 1;
        }
        for (;;) {
            ::pause();
        }
    }
    for (;;) {
        std::atomic_signal_fence(std::memory_order_seq_cst); // a loop without effect may be left out
    }
}

} // namespace

void Neighbours::take_memory(uint64_t bytes) {
    children_.push_back(start(bytes));
}

void Neighbours::take_processors(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        children_.push_back(start(0));
    }
}

void Neighbours::leave() {
    for (const pid_t child : children_) {
        if (child > 0) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
    }
    children_.clear();
}

uint64_t resident_set_bytes() {
    std::ifstream statm("/proc/self/statm");
    uint64_t all = 0;
    uint64_t resident = 0;
    statm >> all >> resident;
    return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace sluice::bench
