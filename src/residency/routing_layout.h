// Which banks one routing decision uses, and in which order decisions come: what policies know of a model.
#pragma once

#include "residency/slot_plan.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::residency {

/// The routing decisions of one token. A "layer" here is one decision: a model may make two in one of its
/// blocks, and none in others.
struct RoutingLayout {
    struct Layer {
        std::vector<BankId> banks; ///< in consumption order
        uint32_t expert_count = 0;
        uint32_t experts_per_token = 0;
    };
    std::vector<Layer> layers;           ///< in the order in which a token passes them
    std::vector<uint32_t> layer_of_bank; ///< index into layers, by BankId
};

/// Calls `visit` for each of one token's `experts`, once however often it is there.
template <typename Visit>
void for_each_distinct(std::span<const uint32_t> experts, const Visit &visit) {
    for (auto at = experts.begin(); at != experts.end(); ++at) {
        if (std::find(experts.begin(), at, *at) == at) { // few: no set is faster
            visit(*at);
        }
    }
}

/// Lays out `banks`. `layers` are the decisions seen in graphs, in graph order; a bank that is in several of
/// them counts with the first, and one that is in none is a layer of its own, after all others.
RoutingLayout make_routing_layout(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers);

} // namespace sluice::residency
