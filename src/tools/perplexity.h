// How well logits foresaw a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::tools {

/// Perplexity is e to the mean of -ln p over tokens, p what softmax gives the token that came. Its error is
/// the standard error of that mean, times the perplexity: the same formulas as llama-perplexity's.
class Perplexity {
public:
    /// `token` followed where these logits were given; it is one of them.
    void add(std::span<const float> logits, int32_t token);

    [[nodiscard]] size_t tokens() const { return tokens_; }
    [[nodiscard]] double value() const; ///< 0 without tokens
    [[nodiscard]] double error() const; ///< 0 with fewer than two

private:
    size_t tokens_ = 0;
    double sum_ = 0; ///< of -ln p
    double sum_of_squares_ = 0;
};

} // namespace sluice::tools
