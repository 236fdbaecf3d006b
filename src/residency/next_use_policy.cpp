#include "residency/eviction_policy.h"

#include "residency/use_forecast.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace sluice::residency {

namespace {

constexpr SlotIndex kNoSlot = UINT32_MAX;
constexpr float kNothing = -std::numeric_limits<float>::infinity(); ///< score of a layer with nothing to give

/// Keeps each layer's resident experts in the order in which they would go. The distance is the same for all
/// of them, and what is expected of them changes only when their layer is routed; so the order is renewed
/// then, and a victim is the best among the layers' firsts.
class NextUsePolicy final : public IEvictionPolicy {
public:
    NextUsePolicy(size_t slots, const RoutingLayout &layout)
        : layout_(layout), forecast_(layout), place_of_bank_(layout.layer_of_bank.size()),
          layer_count_(static_cast<float>(layout.layers.size())), key_of_(slots), holds_(slots, false),
          first_wait_(layout.layers.size(), kNothing), scores_(layout.layers.size()),
          refused_(layout.layers.size(), 0) {
        for (const RoutingLayout::Layer &shape : layout_.layers) {
            Layer &layer = layers_.emplace_back();
            layer.residents.reserve(shape.expert_count);
            layer.wait.resize(shape.expert_count);
            layer.slices.assign(shape.expert_count, 0);
            layer.slots.assign(shape.banks.size() * shape.expert_count, kNoSlot);
            for (size_t place = 0; place < shape.banks.size(); ++place) {
                place_of_bank_[shape.banks[place]] = place;
            }
        }
        outdated_.reserve(layers_.size());
        for (uint32_t index = 0; index < layers_.size(); ++index) {
            outdate(index);
        }
    }

    void routed(uint32_t layer, std::span<const uint32_t> experts) override {
        forecast_.routed(layer, experts);
        outdate(layer);
        computing_ = layer;
    }

    void used(SlotIndex slot, SliceKey key) override {
        if (holds_[slot]) {
            if (key_of_[slot] == key) {
                return; // a hit: routed() has told all about it
            }
            forgotten(slot);
        }
        holds_[slot] = true;
        key_of_[slot] = key;
        const uint32_t index = layout_.layer_of_bank[key.bank];
        Layer &layer = layers_[index];
        slot_of(layer, key) = slot;
        if (++layer.slices[key.expert] == 1) {
            layer.residents.push_back({layer.wait[key.expert], key.expert});
            move_to_place(layer.residents, layer.residents.size() - 1);
            note_first(index);
        }
    }

    void forgotten(SlotIndex slot) override {
        if (!holds_[slot]) {
            return;
        }
        holds_[slot] = false;
        const SliceKey key = key_of_[slot];
        const uint32_t index = layout_.layer_of_bank[key.bank];
        Layer &layer = layers_[index];
        slot_of(layer, key) = kNoSlot;
        if (--layer.slices[key.expert] == 0) {
            layer.residents.erase(
                std::find_if(layer.residents.begin(), layer.residents.end(),
                             [&key](const Resident &resident) { return resident.expert == key.expert; }));
            note_first(index);
        }
    }

    std::optional<SlotIndex> victim(const std::function<bool(SlotIndex)> &evictable) override {
        for (const uint32_t index : outdated_) {
            bring_up_to_date(index);
        }
        outdated_.clear();
        for (uint32_t index = 0; index < layers_.size(); ++index) {
            scores_[index] = distance(index) + first_wait_[index];
        }
        std::fill(refused_.begin(), refused_.end(), 0);
        for (;;) {
            const auto best = std::max_element(scores_.begin(), scores_.end());
            if (best == scores_.end() || *best == kNothing) {
                return std::nullopt;
            }
            const auto index = static_cast<uint32_t>(best - scores_.begin());
            const std::vector<Resident> &residents = layers_[index].residents;
            if (const auto slot = evictable_slice(index, residents[refused_[index]].expert, evictable)) {
                return slot;
            }
            const size_t next = ++refused_[index];
            *best = next < residents.size() ? distance(index) + residents[next].wait : kNothing;
        }
    }

private:
    struct Resident {
        float wait = 0; ///< layers that compute in vain until it is used: L (1/p - 1)
        uint32_t expert = 0;
    };

    struct Layer {
        std::vector<Resident> residents; ///< experts with a slice in this class, first to go first
        std::vector<float> wait;         ///< by expert, as above
        std::vector<uint32_t> slices;    ///< by expert: how many are in this class
        std::vector<SlotIndex> slots;    ///< by place of the bank, then expert
        bool outdated = false;           ///< routed since `wait` and the order were made
    };

    SlotIndex &slot_of(Layer &layer, SliceKey key) {
        return layer.slots[place_of_bank_[key.bank] * layer.slices.size() + key.expert];
    }

    /// Layers from the one that computes to `index`.
    [[nodiscard]] float distance(uint32_t index) const {
        const auto ahead = static_cast<float>(index) - static_cast<float>(computing_);
        return ahead > 0 ? ahead : ahead + layer_count_;
    }

    /// Moves the resident at `at` forwards to where it belongs among those before it.
    static void move_to_place(std::vector<Resident> &residents, size_t at) {
        const Resident moved = residents[at];
        for (; at > 0; --at) {
            const Resident &before = residents[at - 1];
            if (before.wait > moved.wait || (before.wait == moved.wait && before.expert < moved.expert)) {
                break;
            }
            residents[at] = before;
        }
        residents[at] = moved;
    }

    void note_first(uint32_t index) {
        const std::vector<Resident> &residents = layers_[index].residents;
        first_wait_[index] = kNothing;
        if (!residents.empty()) {
            first_wait_[index] = residents.front().wait;
        }
    }

    void outdate(uint32_t index) {
        if (!layers_[index].outdated) {
            layers_[index].outdated = true;
            outdated_.push_back(index);
        }
    }

    void bring_up_to_date(uint32_t index) {
        Layer &layer = layers_[index];
        forecast_.shares(index, layer.wait);
        for (float &wait : layer.wait) {
            wait = layer_count_ * (1.0F / wait - 1.0F);
        }
        // One token changes the order little: sorting by insertion hardly moves anything.
        for (size_t i = 0; i < layer.residents.size(); ++i) {
            layer.residents[i].wait = layer.wait[layer.residents[i].expert];
            move_to_place(layer.residents, i);
        }
        note_first(index);
        layer.outdated = false;
    }

    /// Its last slice first: the earlier ones are waited for, while a late one can arrive meanwhile.
    [[nodiscard]] std::optional<SlotIndex>
    evictable_slice(uint32_t index, uint32_t expert, const std::function<bool(SlotIndex)> &evictable) const {
        const Layer &layer = layers_[index];
        for (size_t place = layout_.layers[index].banks.size(); place-- > 0;) {
            const SlotIndex slot = layer.slots[place * layer.slices.size() + expert];
            if (slot != kNoSlot && evictable(slot)) {
                return slot;
            }
        }
        return std::nullopt;
    }

    const RoutingLayout layout_;
    UseForecast forecast_;
    std::vector<Layer> layers_;
    std::vector<size_t> place_of_bank_; ///< within its layer's banks
    const float layer_count_;
    uint32_t computing_ = 0;         ///< the layer routed last
    std::vector<uint32_t> outdated_; ///< layers
    std::vector<SliceKey> key_of_;   ///< by slot, where holds_
    std::vector<bool> holds_;
    std::vector<float> first_wait_; ///< by layer: its first resident's, or kNothing
    std::vector<float> scores_;     ///< by layer, while a victim is looked for
    std::vector<size_t> refused_;   ///< by layer, then, too: how many of its first can't go
};

} // namespace

std::unique_ptr<IEvictionPolicy> make_next_use_policy(size_t slots, const RoutingLayout &layout) {
    return std::make_unique<NextUsePolicy>(slots, layout);
}

} // namespace sluice::residency
