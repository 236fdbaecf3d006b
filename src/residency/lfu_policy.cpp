#include "residency/eviction_policy.h"

#include <set>
#include <tuple>
#include <vector>

namespace sluice::residency {

namespace {

class LfuPolicy final : public IEvictionPolicy {
public:
    LfuPolicy(size_t slots, const RoutingLayout &layout) : layout_(layout), idle_(slots), where_(slots) {
        for (const RoutingLayout::Layer &layer : layout_.layers) {
            uses_.emplace_back(layer.expert_count, 0);
        }
        for (SlotIndex slot = 0; slot < slots; ++slot) {
            idle_[slot] = order_.extract(order_.emplace(0, 0, slot).first);
        }
    }

    void routed(uint32_t layer, std::span<const uint32_t> experts) override {
        // Their slots are used() next and find their places then.
        for_each_distinct(experts, [&](uint32_t expert) { ++uses_[layer][expert]; });
    }

    void used(SlotIndex slot, SliceKey key) override {
        forgotten(slot);
        idle_[slot].value() = {uses_[layout_.layer_of_bank[key.bank]][key.expert], ++clock_, slot};
        where_[slot] = order_.insert(std::move(idle_[slot])).position;
    }

    void forgotten(SlotIndex slot) override {
        if (!idle_[slot]) {
            idle_[slot] = order_.extract(where_[slot]);
        }
    }

    std::optional<SlotIndex> victim(const std::function<bool(SlotIndex)> &evictable) override {
        for (const auto &[uses, time, slot] : order_) {
            if (evictable(slot)) {
                return slot;
            }
        }
        return std::nullopt;
    }

private:
    using Order = std::set<std::tuple<uint64_t, uint64_t, SlotIndex>>; ///< uses, time of the last, slot

    const RoutingLayout layout_;
    std::vector<std::vector<uint64_t>> uses_; ///< by layer and expert: tokens routed to it
    uint64_t clock_ = 0;
    Order order_;                        ///< first to go first
    std::vector<Order::node_type> idle_; ///< by empty slot: its node, so that moving it takes no memory
    std::vector<Order::iterator> where_; ///< by slot that holds something
};

} // namespace

std::unique_ptr<IEvictionPolicy> make_lfu_policy(size_t slots, const RoutingLayout &layout) {
    return std::make_unique<LfuPolicy>(slots, layout);
}

} // namespace sluice::residency
