#include "streaming/runtime/run_controller.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace sluice::streaming {

namespace {

/// Tokens must take this much longer or shorter, as a logarithm, before conditions count as changed.
constexpr double kClearly = 0.2;
/// And this many times the error of the two medians that are compared.
constexpr double kErrors = 6;

double quantile(std::vector<double> values, double share) {
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

} // namespace

/// Empty where nothing was found. Of a token or two no share is said: it would look like a measurement.
std::string RunController::in_words(const std::string &choice, const Finding &finding) {
    if (finding.given_up_after > 0) {
        return fmt::format("{} was given up after {}", choice,
                           finding.given_up_after == 1 ? "a token"
                                                       : fmt::format("{} tokens", finding.given_up_after));
    }
    if (!finding.gain) {
        return {};
    }
    if (*finding.gain <= -PairedTrial::kLeastGain) {
        return fmt::format("{} takes {:.0f} % longer", choice, -100 * *finding.gain);
    }
    return choice + (*finding.gain < PairedTrial::kLeastGain ? " takes as long" : " is not surely quicker");
}

RunController::RunController(std::vector<Knob> knobs) : knobs_(std::move(knobs)) {
    for (const Knob &knob : knobs_) {
        settled_.push_back(knob.start);
        findings_.emplace_back(knob.choices.size());
    }
    setting_ = settled_;
}

void RunController::add(double seconds, bool read) {
    if (knobs_.empty()) {
        return;
    }
    const bool with_change = tried_ && trial_.with_change();
    if (!with_change) {
        reads_ = read;
        watch(seconds);
        if (conditions_changed()) {
            ++changes_noticed_;
            rest_ = kRest;
            begin_round();
            return;
        }
    }
    if (tried_) {
        ++tokens_tried_;
        go_on_with_trial(seconds);
    } else if (--left_alone_ == 0) {
        begin_round();
    }
}

void RunController::go_on_with_trial(double seconds) {
    if (const Verdict verdict = trial_.add(seconds); verdict != Verdict::Undecided) {
        end_trial(verdict);
        return;
    }
    setting_ = settled_;
    if (trial_.with_change()) {
        setting_[tried_->knob] = tried_->choice;
    }
}

void RunController::watch(double seconds) {
    const double value = std::log(std::max(seconds, 1e-9));
    if (last_.size() == kWindow) {
        last_.erase(last_.begin());
    }
    last_.push_back(value);
    if (then_.size() < 2 * kWindow) {
        then_.push_back(value);
    } else if (now_.size() < kWindow) {
        now_.push_back(value);
    } else {
        now_[next_] = value;
        next_ = (next_ + 1) % kWindow;
    }
}

bool RunController::conditions_changed() const {
    if (now_.size() < kWindow) {
        return false;
    }
    const auto spread = [](const std::vector<double> &values) {
        return (quantile(values, 0.75) - quantile(values, 0.25)) / 1.349; // of normal values: the deviation
    };
    // A median's error is the deviation times 1.25 over the root of the number of values.
    const double error =
        1.25 * std::max(spread(then_), spread(now_)) / std::sqrt(static_cast<double>(kWindow));
    return std::abs(quantile(now_, 0.5) - quantile(then_, 0.5)) > std::max(kClearly, kErrors * error);
}

void RunController::forget_times() {
    then_.clear();
    now_.clear();
    next_ = 0;
}

void RunController::begin_round() {
    moved_ = false;
    forget_times();
    waiting_.clear();
    for (size_t knob = knobs_.size(); knob-- > 0;) {
        for (size_t choice = knobs_[knob].choices.size(); choice-- > 0;) {
            waiting_.push_back({knob, choice});
        }
    }
    begin_next_trial();
}

bool RunController::means_something(const Knob &knob) const {
    const bool waits = !waits_ || *waits_ >= kWaits;
    return (reads_ || !knob.needs_reads) && (waits || !knob.needs_waits);
}

/// Of tokens that were computed alike, by the differences of neighbours, which a drift does not widen.
double RunController::spread() const {
    constexpr double kLeastSpread = 0.02;
    if (last_.size() < kWarmUp) {
        return 0;
    }
    std::vector<double> steps;
    for (size_t i = 1; i < last_.size(); ++i) {
        steps.push_back(std::abs(last_[i] - last_[i - 1]));
    }
    constexpr double kOfMedianDistance = 1.4826; // of normal values
    return std::max(kOfMedianDistance * quantile(std::move(steps), 0.5) / std::sqrt(2.0), kLeastSpread);
}

void RunController::begin_next_trial() {
    tried_.reset();
    while (!waiting_.empty() && !tried_) {
        const Candidate next = waiting_.back();
        waiting_.pop_back();
        if (next.choice != settled_[next.knob] && means_something(knobs_[next.knob])) {
            tried_ = next;
            trial_ = PairedTrial(spread());
        }
    }
    setting_ = settled_;
    if (!tried_) {
        rest();
    }
}

void RunController::end_trial(Verdict verdict) {
    const auto [knob, choice] = *tried_;
    const size_t before = settled_[knob];
    const std::optional<double> gain = trial_.gain();
    findings_[knob][choice] = {.gain = gain, .given_up_after = trial_.given_up_after()};
    if (verdict == Verdict::Better) {
        settled_[knob] = choice;
        moved_ = true;
        forget_times();
        // Turned round it is what the choice that was left is known by.
        findings_[knob][before] = {.gain = gain ? std::optional(1 - 1 / (1 - *gain)) : std::nullopt};
    }
    begin_next_trial();
}

void RunController::rest() {
    rest_ = moved_ ? kRest : rest_;
    left_alone_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
}

std::vector<SettledSetting> RunController::outcome() const {
    std::vector<SettledSetting> all;
    for (size_t knob = 0; knob < knobs_.size(); ++knob) {
        SettledSetting settled{
            .name = knobs_[knob].name, .choice = knobs_[knob].choices[settled_[knob]], .why = {}};
        for (size_t choice = 0; choice < knobs_[knob].choices.size(); ++choice) {
            const std::string found = in_words(knobs_[knob].choices[choice], findings_[knob][choice]);
            if (choice != settled_[knob] && !found.empty()) {
                settled.why += (settled.why.empty() ? "" : ", ") + found;
            }
        }
        if (settled.why.empty()) {
            const bool idle = knobs_[knob].needs_waits && waits_ && *waits_ < kWaits;
            settled.why = idle ? "others unmeasured: no thread waited for a core" : "others unmeasured";
        }
        all.push_back(std::move(settled));
    }
    return all;
}

} // namespace sluice::streaming
