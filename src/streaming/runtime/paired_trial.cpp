#include "streaming/runtime/paired_trial.h"

#include <algorithm>
#include <cmath>

namespace sluice::streaming {

namespace {

/// The standard deviation of normal values is this times the median of their distances from the middle.
constexpr double kOfMedianDistance = 1.4826;
/// A median of normal values varies by this more than their mean.
constexpr double kOfMedian = 1.25;
/// The first token with the change over the one before; both of a four over both without it.
constexpr double kHopeless = 1.5;
constexpr double kClearlyWorse = 1.15;
/// Of fewer nothing can be said in numbers, unless the gain is large.
constexpr size_t kFoursThatTell = 3;
/// No clock and no machine repeats itself more exactly.
constexpr double kLeastSpread = 0.005;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double median_distance(std::vector<double> values, double from) {
    for (double &value : values) {
        value = std::abs(value - from);
    }
    return median(std::move(values));
}

} // namespace

Verdict PairedTrial::add(double seconds) {
    pending_.push_back(std::log(std::max(seconds, 1e-9)));
    if (is_hopeless()) {
        return give_up(1);
    }
    if (pending_.size() < 4) {
        return Verdict::Undecided;
    }
    const double first = pending_[0];
    const double last = pending_[3];
    gap_ = std::min(pending_[1], pending_[2]) - std::max(first, last);
    const double lead = std::max(pending_[1], pending_[2]) - std::min(first, last);
    lead_ = shifts_.empty() ? lead : std::max(lead_, lead);
    shifts_.push_back((pending_[1] + pending_[2] - first - last) / 2);
    repeats_.push_back(first - last);
    repeats_.push_back(pending_[1] - pending_[2]);
    pending_.clear();
    return judge();
}

/// Of an even number the upper one, which speaks against the change.
double PairedTrial::location() const {
    return median(shifts_);
}

double PairedTrial::error() const {
    const double of_tokens = kOfMedianDistance * median_distance(repeats_, 0) / std::sqrt(2.0);
    const double of_fours = kOfMedianDistance * median_distance(shifts_, location());
    return kOfMedian * std::max({of_tokens, of_fours, kLeastSpread}) /
           std::sqrt(static_cast<double>(shifts_.size()));
}

/// The very first token with the change took far longer: more of them would only be lost. Should it have been
/// an accident, the change is tried again in the next round.
bool PairedTrial::is_hopeless() const {
    return shifts_.empty() && pending_.size() == 2 && pending_[1] - pending_[0] > std::log(kHopeless);
}

/// One token that took far too long without the change is not enough: the best without it counts.
bool PairedTrial::is_large_gain() const {
    constexpr double kSpreads = 3;
    return shifts_.size() >= kFoursOfLargeGain && spread_ > 0 && lead_ < std::log(1 - kLargeGain) &&
           lead_ < -kSpreads * spread_;
}

Verdict PairedTrial::give_up(size_t tokens) {
    given_up_after_ = tokens;
    return Verdict::NotBetter;
}

Verdict PairedTrial::judge() {
    const size_t fours = shifts_.size();
    if (is_large_gain()) {
        return Verdict::Better;
    }
    if (fours < kFoursThatTell) {
        return gap_ > std::log(kClearlyWorse) ? give_up(2 * fours) : Verdict::Undecided;
    }
    const double enough = std::log(1 - kLeastGain);
    const double where = location();
    const double off_by = error();
    // The error itself is known the worse the fewer fours there are. With these numbers noise alone passes
    // less often than once in ten thousand trials, and a gain of 10 % at a spread of 10 % takes some twenty
    // fours.
    const double sure = 4 + 12.0 / static_cast<double>(fours);
    if (fours >= kLeastFours && where <= enough && where < -sure * off_by) {
        return Verdict::Better;
    }
    const bool worse = where > 3 * off_by;
    const bool no_gain = fours >= 8 && where - 2.5 * off_by > enough;
    return worse || no_gain || fours >= kMostFours ? Verdict::NotBetter : Verdict::Undecided;
}

std::optional<double> PairedTrial::gain() const {
    const bool tells = shifts_.size() >= kFoursThatTell || is_large_gain();
    return tells ? std::optional(1 - std::exp(location())) : std::nullopt;
}

} // namespace sluice::streaming
