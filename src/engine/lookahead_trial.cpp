#include "engine/lookahead_trial.h"

#include <algorithm>

namespace sluice::engine {

namespace {

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace

bool LookaheadTrial::block_is_on() const {
    const size_t block = token_ / kBlock % 4; // off, on, on, off
    return block == 1 || block == 2;
}

void LookaheadTrial::add(double seconds) {
    if (deciding()) {
        (block_is_on() ? with_ : without_).push_back(seconds);
    }
    ++token_;
    if (token_ == kTrial) {
        const double without = median(without_);
        gain_ = without > 0 ? 1.0 - median(with_) / without : 0.0;
        kept_ = *gain_ >= kLeastGain;
        with_.clear();
        without_.clear();
    } else if (token_ == kTrial + kKept) {
        token_ = 0;
    }
}

} // namespace sluice::engine
