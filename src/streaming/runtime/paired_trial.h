// Whether a change makes tokens quicker: tokens with it and without it in turn, until the answer is sure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::streaming {

/// What a trial says so far.
enum class Verdict {
    Undecided, ///< goes on
    Better,    ///< the change surely makes tokens quicker, by enough to show
    NotBetter, ///< it surely does not, or no answer was to be had in good time
};

/// One trial of one change. Tokens go in fours (without, with, with, without), so that a steady drift weighs
/// on both alike. Of each four one number is kept, the logarithm of how much longer tokens took with the
/// change. The verdict compares where these numbers lie (their median) with the error that
/// their number and the spread of single tokens leave; both are taken from medians, so that a token that took
/// ten times as long decides nothing. Pure arithmetic; not thread-safe.
class PairedTrial {
public:
    /// `spread`: of single tokens as known before the trial, as a standard deviation of the logarithms of
    /// their times. With it a large gain needs fewer fours. 0: unknown.
    explicit PairedTrial(double spread = 0) : spread_(spread) {}

    /// Whether the next token is to be computed with the change.
    [[nodiscard]] bool with_change() const { return pending_.size() == 1 || pending_.size() == 2; }

    /// How long the token took that with_change() was asked about, in seconds, above 0.
    Verdict add(double seconds);

    /// Share of a token's time that the change saves (negative: costs) by what was seen. Empty before there
    /// are enough fours to tell, and so for a change that was given up early.
    [[nodiscard]] std::optional<double> gain() const;

    /// Tokens that were computed with the change until it was given up at first sight; 0 if it was not.
    [[nodiscard]] size_t given_up_after() const { return given_up_after_; }

    /// A change that saves less than this would not show.
    static constexpr double kLeastGain = 0.03;
    /// Fours that a verdict for the change takes.
    static constexpr size_t kLeastFours = 6;
    /// And where each token with it saved this much at least against each token of its four without it, and
    /// far more than tokens were known to vary by.
    static constexpr double kLargeGain = 0.25;
    static constexpr size_t kFoursOfLargeGain = 2;
    /// Fours after which no answer is the answer.
    static constexpr size_t kMostFours = 48;

private:
    Verdict judge();
    Verdict give_up(size_t tokens);
    [[nodiscard]] bool is_hopeless() const;
    [[nodiscard]] bool is_large_gain() const;
    [[nodiscard]] double location() const;
    [[nodiscard]] double error() const;

    std::vector<double> pending_; ///< logarithms of the times of the four that is being measured
    std::vector<double> shifts_;  ///< of each four: logarithm of the time with the change over that without
    double gap_ = 0;              ///< of the last four: the best with the change over the worst without
    double lead_ = 0;             ///< largest of all fours: the worst with the change over the best without
    double spread_;               ///< of tokens before the trial; 0: unknown
    std::vector<double> repeats_; ///< differences of tokens of one four that were computed alike
    size_t given_up_after_ = 0;
};

} // namespace sluice::streaming
