#include "residency/use_forecast.h"

#include <algorithm>
#include <numeric>

namespace sluice::residency {

namespace {

// What an average keeps from one token to the next: nothing, and half after 4, 32 and 256 tokens.
constexpr std::array<float, UseForecast::kAverages> kKept = {0.0F, 0.8408964F, 0.9785721F, 0.9972960F};

// Share of the trust that one token in one layer may move: a few tokens decide, a single one does not.
constexpr double kLearningRate = 1.0 / 128;

// A memory that is not trusted at all could not regain trust.
constexpr double kLeastTrust = 0.01;

// Keeps averages away from numbers so small that the processor is slow with them.
constexpr float kLeastShare = 1e-9F;

} // namespace

UseForecast::UseForecast(const RoutingLayout &layout) {
    for (const RoutingLayout::Layer &shape : layout.layers) {
        Layer &layer = layers_.emplace_back();
        layer.alike = std::min(1.0F, static_cast<float>(std::max(shape.experts_per_token, 1U)) /
                                         static_cast<float>(shape.expert_count));
        layer.average.fill(std::vector<float>(shape.expert_count, layer.alike));
    }
    trust_.fill(1.0 / kMemories);
}

void UseForecast::routed(uint32_t layer, std::span<const uint32_t> experts) {
    learn(layer, experts);
    for (size_t i = 0; i < kAverages; ++i) {
        std::vector<float> &average = layers_[layer].average[i];
        for (float &share : average) {
            share = std::max(share * kKept[i], kLeastShare);
        }
        for_each_distinct(experts, [&](uint32_t expert) {
            average[expert] = std::min(1.0F, average[expert] + (1.0F - kKept[i]));
        });
    }
}

/// Moves trust towards the memories that expected these experts most.
void UseForecast::learn(uint32_t layer, std::span<const uint32_t> experts) {
    if (experts.empty()) {
        return;
    }
    std::array<double, kMemories> credit{};
    for (const uint32_t expert : experts) {
        std::array<double, kMemories> expected{};
        for (size_t i = 0; i < kAverages; ++i) {
            expected[i] = trust_[i] * static_cast<double>(layers_[layer].average[i][expert]);
        }
        expected[kAverages] = trust_[kAverages] * static_cast<double>(layers_[layer].alike);
        const double all = std::accumulate(expected.begin(), expected.end(), 0.0);
        for (size_t i = 0; i < kMemories; ++i) {
            credit[i] += expected[i] / all / static_cast<double>(experts.size());
        }
    }
    double sum = 0;
    for (size_t i = 0; i < kMemories; ++i) {
        trust_[i] = std::max(trust_[i] + kLearningRate * (credit[i] - trust_[i]), kLeastTrust);
        sum += trust_[i];
    }
    for (double &trust : trust_) {
        trust /= sum;
    }
}

void UseForecast::shares(uint32_t layer, std::span<float> out) const {
    const auto trust = [this](size_t i) { return static_cast<float>(trust_[i]); };
    std::fill(out.begin(), out.end(), trust(kAverages) * layers_[layer].alike);
    for (size_t i = 0; i < kAverages; ++i) {
        const std::vector<float> &average = layers_[layer].average[i];
        for (size_t expert = 0; expert < out.size(); ++expert) {
            out[expert] += trust(i) * average[expert];
        }
    }
    for (float &share : out) {
        share = std::min(share, 1.0F);
    }
}

} // namespace sluice::residency
