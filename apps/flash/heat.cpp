#include "heat.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice::flash {

namespace {

constexpr int kLevels = 9;
constexpr double kLeastUse = 0.5;

/// Each level stands for twice the uses of the one before; 0 for less than the least.
int level(double uses) {
    if (uses < kLeastUse) {
        return 0;
    }
    return uses < 2 ? 1 : std::min(kLevels, static_cast<int>(std::log2(uses)) + 1);
}

} // namespace

void Heat::add(const std::vector<LayerUse> &layers, double seconds) {
    const double half_life = std::chrono::duration<double>(kHeatHalfLife).count();
    const double kept = std::exp2(-seconds / half_life);
    // Of a long time nobody knows when the uses were: they weigh as if spread evenly over it.
    const double weight = seconds > half_life ? (1 - kept) * half_life / (seconds * std::numbers::ln2) : 1;
    uses_.resize(layers.size());
    last_.resize(layers.size());
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        const std::vector<uint32_t> &asked = layers[layer].asked;
        uses_[layer].resize(asked.size());
        last_[layer].asked.resize(asked.size());
        for (size_t expert = 0; expert < asked.size(); ++expert) {
            const uint32_t more = asked[expert] - last_[layer].asked[expert];
            uses_[layer][expert] = uses_[layer][expert] * kept + more * weight;
        }
    }
    last_ = layers;
}

std::vector<LayerHeat> Heat::layers() const {
    std::vector<LayerHeat> heat;
    for (size_t layer = 0; layer < last_.size(); ++layer) {
        const std::vector<bool> &there = last_[layer].there;
        LayerHeat &told = heat.emplace_back();
        told.experts = there.size();
        told.cached = static_cast<size_t>(std::count(there.begin(), there.end(), true));
        for (size_t expert = 0; expert < there.size(); ++expert) {
            const int now = level(uses_[layer][expert]);
            told.used += now > 0 ? 1 : 0;
            told.cells += static_cast<char>((there[expert] ? 'a' : '0') + now);
        }
    }
    return heat;
}

} // namespace sluice::flash
