#include "residency/eviction_policy.h"

#include <list>
#include <vector>

namespace sluice::residency {

namespace {

class LruPolicy final : public IEvictionPolicy {
public:
    explicit LruPolicy(size_t slots) : where_(slots, order_.end()) {}

    void used(SlotIndex slot, SliceKey) override {
        if (where_[slot] == order_.end()) {
            where_[slot] = order_.insert(order_.end(), slot);
        } else {
            order_.splice(order_.end(), order_, where_[slot]);
        }
    }

    void forgotten(SlotIndex slot) override {
        if (where_[slot] != order_.end()) {
            order_.erase(where_[slot]);
            where_[slot] = order_.end();
        }
    }

    std::optional<SlotIndex> victim(const std::function<bool(SlotIndex)> &evictable) override {
        for (SlotIndex slot : order_) {
            if (evictable(slot)) {
                return slot;
            }
        }
        return std::nullopt;
    }

private:
    std::list<SlotIndex> order_; // oldest first
    std::vector<std::list<SlotIndex>::iterator> where_;
};

} // namespace

std::unique_ptr<IEvictionPolicy> make_lru_policy(size_t slots) {
    return std::make_unique<LruPolicy>(slots);
}

} // namespace sluice::residency
