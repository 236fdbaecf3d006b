#include "tools/perplexity.h"

#include <algorithm>
#include <cmath>

namespace sluice::tools {

void Perplexity::add(std::span<const float> logits, int32_t token) {
    const double most = *std::max_element(logits.begin(), logits.end());
    double all = 0;
    for (const float logit : logits) {
        all += std::exp(logit - most);
    }
    const double surprise = std::log(all) - (logits[static_cast<size_t>(token)] - most);
    sum_ += surprise;
    sum_of_squares_ += surprise * surprise;
    ++tokens_;
}

double Perplexity::value() const {
    return tokens_ == 0 ? 0 : std::exp(sum_ / static_cast<double>(tokens_));
}

double Perplexity::error() const {
    if (tokens_ < 2) {
        return 0;
    }
    const auto count = static_cast<double>(tokens_);
    const double variance = sum_of_squares_ / count - sum_ / count * (sum_ / count);
    return variance <= 0 ? 0 : std::sqrt(variance / (count - 1)) * value();
}

} // namespace sluice::tools
