// The part of the expert cache that gives memory back while it is used, and takes it again.
#include "residency/expert_cache.h"

#include <algorithm>

namespace sluice::residency {

size_t ExpertCache::set_limit(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (size_t c = 0; c < classes_.size(); ++c) {
        ClassState &state = classes_[c];
        const SlotClass &slot_class = plan_.classes[c];
        // Whole numbers: a limit asked for as it is must not lose a slot to rounding.
        const size_t share = plan_.arena_bytes == 0
                                 ? slot_class.slots
                                 : slot_class.slots * std::min(bytes, plan_.arena_bytes) / plan_.arena_bytes;
        const size_t wanted =
            std::clamp(share, std::min(slot_class.minimum_slots, slot_class.slots), slot_class.slots);
        if (wanted < state.slots.size() - state.parked.size()) {
            for (const SlotIndex index : state.free) {
                discard(c, index); // what it was filled with is forgotten
            }
        }
        SlotIndex index = 0;
        while (state.slots.size() - state.parked.size() > wanted && take_slot(c, index) != nullptr) {
            state.slots[index]->state.store(SlotState::Empty, std::memory_order_relaxed);
            discard(c, index);
            state.parked.push_back(index);
        }
        while (state.slots.size() - state.parked.size() < wanted) {
            state.free.push_back(state.parked.back());
            state.parked.pop_back();
        }
    }
    return bytes_in_use();
}

/// Pages that the slot shares with neighbours go with the last of them that had any.
void ExpertCache::discard(size_t slot_class, SlotIndex index) {
    const auto &slots = classes_[slot_class].slots;
    if (!slots[index]->has_pages) {
        return;
    }
    slots[index]->has_pages = false;
    const size_t stride = plan_.classes[slot_class].stride;
    const size_t page = platform::page_size();
    size_t begin = index;
    while (begin > 0 && !slots[begin - 1]->has_pages && (index - begin) * stride < page) {
        --begin;
    }
    size_t end = index + 1;
    while (end < slots.size() && !slots[end]->has_pages && (end - index - 1) * stride < page) {
        ++end;
    }
    platform::ReservedMemory::discard_pages({slots[begin]->base, (end - begin) * stride});
}

size_t ExpertCache::limit() const {
    const std::lock_guard lock(mutex_);
    return bytes_in_use();
}

size_t ExpertCache::held_bytes() const {
    const std::lock_guard lock(mutex_);
    size_t bytes = 0;
    for (size_t c = 0; c < classes_.size(); ++c) {
        const auto &slots = classes_[c].slots;
        const auto held =
            std::count_if(slots.begin(), slots.end(), [](const auto &slot) { return slot->has_pages; });
        bytes += static_cast<size_t>(held) * plan_.classes[c].stride;
    }
    return bytes;
}

size_t ExpertCache::slots_in_use(size_t slot_class) const {
    const std::lock_guard lock(mutex_);
    return classes_[slot_class].slots.size() - classes_[slot_class].parked.size();
}

size_t ExpertCache::bytes_in_use() const {
    size_t bytes = 0;
    for (size_t c = 0; c < classes_.size(); ++c) {
        bytes += (classes_[c].slots.size() - classes_[c].parked.size()) * plan_.classes[c].stride;
    }
    return bytes;
}

} // namespace sluice::residency
