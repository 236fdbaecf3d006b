#include "platform/affinity.h"

#include <array>
#ifdef __linux__
#include <sched.h>
#endif

namespace sluice::platform {

#ifdef __linux__

namespace {

constexpr size_t kMostProcessors = 65536;

/// No constructor of its own: it is filled before those of default priority run.
struct Mask {
    std::array<cpu_set_t, kMostProcessors / CPU_SETSIZE> sets;
    size_t bytes; ///< as many as the kernel took; 0: unknown

    void read() {
        // The kernel refuses a set smaller than its own.
        for (size_t processors = 1024; processors <= kMostProcessors; processors *= 4) {
            bytes = processors / 8;
            if (::sched_getaffinity(0, bytes, sets.data()) == 0) {
                return;
            }
        }
        bytes = 0;
    }

    [[nodiscard]] std::vector<size_t> processors() const {
        std::vector<size_t> all;
        for (size_t processor = 0; processor < bytes * 8; ++processor) {
            if (CPU_ISSET_S(processor, bytes, sets.data())) {
                all.push_back(processor);
            }
        }
        return all;
    }
};

Mask at_start;

// Runtimes bind in a constructor of default priority, which runs after those with a number.
[[gnu::constructor(101)]] void note_affinity() {
    at_start.read();
}

} // namespace

std::vector<size_t> affinity() {
    Mask mask{};
    mask.read();
    return mask.processors();
}

std::vector<size_t> affinity_at_start() {
    return at_start.processors();
}

void set_affinity(const std::vector<size_t> &processors) {
    Mask mask{};
    mask.bytes = sizeof(mask.sets);
    for (const size_t processor : processors) {
        CPU_SET_S(processor, mask.bytes, mask.sets.data());
    }
    if (!processors.empty()) {
        ::sched_setaffinity(0, mask.bytes, mask.sets.data());
    }
}

#else

std::vector<size_t> affinity() {
    return {};
}

std::vector<size_t> affinity_at_start() {
    return {};
}

void set_affinity(const std::vector<size_t> & /*processors*/) {
}

#endif

} // namespace sluice::platform
