// Allocations of the C++ library that fail on purpose. For programs that are built with failing_new.cpp,
// which replaces their operator new.
#pragma once

namespace sluice::test {

/// Whose allocations are counted.
enum class Allocations {
    OfThisThread,
    OfOtherThreads, ///< but for this one
    OfAll,
};

/// While it lives the `nth` allocation from now on, counted from 0, throws std::bad_alloc, once. One at a
/// time.
class FailingAllocation {
public:
    FailingAllocation(Allocations whose, int nth);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation &) = delete;
    FailingAllocation &operator=(const FailingAllocation &) = delete;

    /// Whether it came to it.
    [[nodiscard]] bool happened() const;
};

} // namespace sluice::test
