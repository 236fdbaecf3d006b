// What the gates feed to both sides. Header-only, so that the stock side links nothing of Sluice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {

/// Prompt number `which`: `length` tokens spread over the vocabulary, without pattern that a router could
/// miss.
inline std::vector<int32_t> gate_prompt(int which, size_t length, size_t vocabulary) {
    std::vector<int32_t> tokens(length);
    uint32_t state = 12345U + static_cast<uint32_t>(which) * 7919U;
    for (int32_t &token : tokens) {
        state = state * 1664525U + 1013904223U;
        token = static_cast<int32_t>((state >> 8U) % vocabulary);
    }
    return tokens;
}

/// The token with the largest logit, the first of equals.
inline int32_t greedy(const float *logits, size_t vocabulary) {
    size_t best = 0;
    for (size_t i = 1; i < vocabulary; ++i) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return static_cast<int32_t>(best);
}

} // namespace sluice::test
