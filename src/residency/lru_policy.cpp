#include "residency/eviction_policy.h"

#include <list>
#include <vector>

namespace sluice::residency {

namespace {

class LruPolicy final : public IEvictionPolicy {
public:
    explicit LruPolicy(size_t slots) : holds_(slots, false) {
        for (SlotIndex slot = 0; slot < slots; ++slot) {
            where_.push_back(idle_.insert(idle_.end(), slot));
        }
    }

    void routed(uint32_t, std::span<const uint32_t>) override {}

    void used(SlotIndex slot, SliceKey) override {
        order_.splice(order_.end(), holds_[slot] ? order_ : idle_, where_[slot]);
        holds_[slot] = true;
    }

    void forgotten(SlotIndex slot) override {
        if (holds_[slot]) {
            idle_.splice(idle_.end(), order_, where_[slot]);
            holds_[slot] = false;
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
    std::list<SlotIndex> idle_;  // empty slots: moving a node between lists takes no memory
    std::vector<std::list<SlotIndex>::iterator> where_;
    std::vector<bool> holds_; // whether in order_
};

} // namespace

std::unique_ptr<IEvictionPolicy> make_lru_policy(size_t slots) {
    return std::make_unique<LruPolicy>(slots);
}

} // namespace sluice::residency
