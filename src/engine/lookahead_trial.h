// Whether looking ahead pays: it is tried on some tokens and not on others, and the quicker way is kept.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::engine {

/// Decides for one token after the other. A trial is 32 tokens in blocks of four: without, with, with,
/// without, and so on, so that a drift of the whole weighs on both alike. What won is kept for 256 tokens;
/// then it is tried again. Pure arithmetic; not thread-safe.
class LookaheadTrial {
public:
    /// Whether the next token is to be computed with lookahead.
    [[nodiscard]] bool on() const { return deciding() ? block_is_on() : kept_; }

    /// How long the token took that on() was asked about, in seconds.
    void add(double seconds);

    /// Share of a token's time that the last complete trial gained (negative: lost), comparing medians. Empty
    /// before there was one.
    [[nodiscard]] std::optional<double> gain() const { return gain_; }

    /// Less than this is no gain: it would not show.
    static constexpr double kLeastGain = 0.01;
    static constexpr size_t kBlock = 4;
    static constexpr size_t kTrial = 32;
    static constexpr size_t kKept = 256;

private:
    [[nodiscard]] bool deciding() const { return token_ < kTrial; }
    [[nodiscard]] bool block_is_on() const;

    size_t token_ = 0; ///< of the trial and the time after it
    bool kept_ = false;
    std::vector<double> with_;
    std::vector<double> without_;
    std::optional<double> gain_;
};

} // namespace sluice::engine
