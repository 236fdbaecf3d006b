// A random order in which every block comes once before any comes again.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice::storage {

/// Numbers from 0 to `count` - 1, each once a round, the same order every round. Holds no list of them, so a
/// file may be of any size. Not thread-safe.
class ReadOrder {
public:
    /// `count` is at least 1.
    ReadOrder(uint64_t count, uint64_t seed)
        : count_(count), bits_(static_cast<unsigned>(std::bit_width(count - 1))),
          mask_((uint64_t{1} << bits_) - 1), state_(seed & mask_), increment_(seed >> 1 | 1) {}

    uint64_t next() {
        uint64_t number = count_;
        while (number >= count_) {
            // A congruential generator with these factors visits all numbers below a power of two...
            state_ = (state_ * 0x5851F42D4C957F2Du + increment_) & mask_;
            // ... but its low bits are regular; this mixes the high ones in and keeps numbers apart.
            number = state_ ^ state_ >> (bits_ + 1) / 2;
        }
        ++given_;
        return number;
    }

    [[nodiscard]] uint64_t count() const { return count_; }
    [[nodiscard]] uint64_t given() const { return given_; } ///< how many next() gave so far

private:
    uint64_t count_;
    unsigned bits_;
    uint64_t mask_;
    uint64_t state_;
    uint64_t increment_;
    uint64_t given_ = 0;
};

} // namespace sluice::storage
