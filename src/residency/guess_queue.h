// Slices that somebody may ask for soon, waiting for the storage device to have nothing else to do.
#pragma once

#include "residency/eviction_policy.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice::residency {

/// Why a slice is read that nobody has asked for. The earlier one goes first.
enum class Guess : uint8_t {
    NextLayer, ///< the next layer's router is expected to choose its expert
    WarmStart, ///< an earlier run had it in its cache at the end
};
inline constexpr size_t kGuessKinds = 2;

/// What became of the guesses of one kind, in slices.
struct GuessCounters {
    uint64_t reads = 0; ///< read before anyone asked
    uint64_t bytes = 0; ///< slice bytes of those
    uint64_t used = 0;  ///< of those read, asked for while still there
    uint64_t late = 0;  ///< of those used, still on their way when asked for
    uint64_t stale = 0; ///< given up unread, because newer guesses came or what they were for began
};

/// Which guess is read next. Not thread-safe: the cache calls it under its lock.
class GuessQueue {
public:
    /// Replaces what is left of this kind.
    void replace(Guess kind, std::span<const SliceKey> keys) {
        drop(kind);
        waiting_[at(kind)].assign(keys.begin(), keys.end());
        if (kind == Guess::NextLayer) {
            expected_.assign(keys.begin(), keys.end());
        }
    }

    /// Gives up what is left of this kind.
    void drop(Guess kind) {
        counters_[at(kind)].stale += waiting_[at(kind)].size();
        waiting_[at(kind)].clear();
        if (kind == Guess::NextLayer) {
            expected_.clear();
        }
    }

    /// The first in order of kinds, which is taken out.
    std::optional<std::pair<Guess, SliceKey>> next() {
        for (const Guess kind : {Guess::NextLayer, Guess::WarmStart}) {
            if (auto &waiting = waiting_[at(kind)]; !waiting.empty()) {
                const SliceKey key = waiting.front();
                waiting.pop_front();
                return std::pair(kind, key);
            }
        }
        return std::nullopt;
    }

    /// Whether the next layer is expected to use it: another guess must not take its place.
    [[nodiscard]] bool expects(SliceKey key) const {
        for (const SliceKey expected : expected_) {
            if (expected == key) {
                return true;
            }
        }
        return false;
    }

    [[nodiscard]] bool empty() const {
        return waiting_[at(Guess::NextLayer)].empty() && waiting_[at(Guess::WarmStart)].empty();
    }

    [[nodiscard]] GuessCounters &counters(Guess kind) { return counters_[at(kind)]; }
    [[nodiscard]] const GuessCounters &counters(Guess kind) const { return counters_[at(kind)]; }

private:
    static constexpr size_t at(Guess kind) { return static_cast<size_t>(kind); }

    std::array<std::deque<SliceKey>, kGuessKinds> waiting_;
    std::array<GuessCounters, kGuessKinds> counters_;
    std::vector<SliceKey> expected_; ///< the latest guess of the next layer, read or not
};

} // namespace sluice::residency
