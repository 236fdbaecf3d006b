// How likely each expert is to be used by the next token, from what the router chose so far. Pure arithmetic.
#pragma once

#include "residency/routing_layout.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::residency {

/// Remembers each expert's use per token in several ways at once: by the last token alone, and by averages in
/// which a token weighs half after 4, 32 and 256 more. One more "memory" takes all experts of a layer to be
/// alike; the averages start from it, too. How far each is to be trusted differs between models and is
/// learned: the forecast is their weighted mean, the weights those under which the choices seen were
/// likeliest (maximum likelihood of a mixture, by one small expectation-maximisation step per token and
/// layer). What is known of an expert does not depend on its being cached. Single-threaded.
class UseForecast {
public:
    explicit UseForecast(const RoutingLayout &layout);

    /// One token was routed to `experts` (below the layer's number of experts) in `layer`. One that is there
    /// twice is used once.
    void routed(uint32_t layer, std::span<const uint32_t> experts);

    /// The expected share of coming tokens that use each expert of `layer`, above 0 and at most 1, to `out`
    /// (as long as the layer has experts).
    void shares(uint32_t layer, std::span<float> out) const;

    static constexpr size_t kAverages = 4;
    static constexpr size_t kMemories = kAverages + 1;

    /// The trust in each memory: the averages from short to long, then "all alike". They sum to 1.
    [[nodiscard]] const std::array<double, kMemories> &trust() const { return trust_; }

private:
    void learn(uint32_t layer, std::span<const uint32_t> experts);

    struct Layer {
        float alike = 0;                                   ///< each expert's share if all are alike
        std::array<std::vector<float>, kAverages> average; ///< by expert
    };

    std::vector<Layer> layers_;
    std::array<double, kMemories> trust_{};
};

} // namespace sluice::residency
