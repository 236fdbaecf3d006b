#include "residency/routing_layout.h"

#include <algorithm>

namespace sluice::residency {

RoutingLayout make_routing_layout(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers) {
    constexpr uint32_t kNowhere = UINT32_MAX;
    RoutingLayout layout;
    layout.layer_of_bank.assign(banks.size(), kNowhere);
    const auto add = [&](const std::vector<BankId> &members, uint32_t experts_per_token) {
        RoutingLayout::Layer layer{.banks = {}, .experts_per_token = experts_per_token};
        for (const BankId bank : members) {
            if (layout.layer_of_bank[bank] == kNowhere) {
                layout.layer_of_bank[bank] = static_cast<uint32_t>(layout.layers.size());
                layer.banks.push_back(bank);
                layer.expert_count = std::max(layer.expert_count, banks[bank].expert_count);
            }
        }
        if (!layer.banks.empty()) {
            layout.layers.push_back(std::move(layer));
        }
    };
    for (const LayerNeed &need : layers) {
        add(need.banks, need.experts_per_token);
    }
    for (BankId bank = 0; bank < banks.size(); ++bank) {
        add({bank}, 1);
    }
    return layout;
}

} // namespace sluice::residency
