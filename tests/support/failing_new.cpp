#include "support/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

enum Counted { None, Here, Elsewhere, Everywhere };

std::atomic<int> counted{None};
std::atomic<int> left{-1}; ///< until one fails; below 0: none does any more
thread_local bool is_here = false;

bool is_to_fail() {
    const int which = counted.load(std::memory_order_relaxed);
    const bool counts = which == Everywhere || (which == Here && is_here) || (which == Elsewhere && !is_here);
    return counts && left.load() >= 0 && left.fetch_sub(1) == 0;
}

} // namespace

// Not inlined, or GCC takes new and free() for a mismatch.
[[gnu::noinline]] void *operator new(size_t size) {
    if (is_to_fail()) {
        throw std::bad_alloc();
    }
    if (void *memory = std::malloc(size == 0 ? 1 : size)) {
        return memory;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}

namespace sluice::test {

FailingAllocation::FailingAllocation(Allocations whose, int nth) {
    is_here = true;
    left = nth;
    counted = whose == Allocations::OfAll          ? Everywhere
              : whose == Allocations::OfThisThread ? Here
                                                   : Elsewhere;
}

FailingAllocation::~FailingAllocation() {
    counted = None;
    is_here = false;
}

bool FailingAllocation::happened() const {
    return left < 0;
}

} // namespace sluice::test
