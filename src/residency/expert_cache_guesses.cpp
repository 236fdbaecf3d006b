// The part of the expert cache that reads what nobody has asked for yet, and knows what was asked for.
#include "residency/expert_cache.h"

#include <algorithm>
#include <new>
#include <utility>

namespace sluice::residency {

namespace {

// Reads on a guess at once: enough to keep a device busy, few enough that one asked for hardly waits.
constexpr size_t kGuessesInFlight = 4;

} // namespace

void ExpertCache::guess(Guess kind, std::span<const SliceKey> keys) {
    Bound bound;
    {
        const std::lock_guard lock(mutex_);
        guesses_.replace(kind, keys);
        bound = bind_guesses();
    }
    submit(bound.requests, bound.targets);
}

ExpertCache::Bound ExpertCache::bind_guesses() {
    Bound bound;
    try { // nothing may throw between binding a slot and submitting its read
        bound.requests.reserve(kGuessesInFlight);
        bound.targets.reserve(kGuessesInFlight);
    } catch (const std::bad_alloc &) {
        return bound;
    }
    while (awaited_ == 0 && in_flight_ < kGuessesInFlight) {
        const auto next = guesses_.next();
        if (!next) {
            break;
        }
        const auto &[kind, key] = *next;
        SlotIndex index = 0;
        Slot *slot = find(key) == nullptr ? take_slot_for(kind, key, index) : nullptr;
        if (slot == nullptr) {
            continue; // there already, or nothing may go for it
        }
        bound.requests.push_back(bind(*slot, index, key, kind));
        bound.targets.push_back(slot);
    }
    return bound;
}

Slot *ExpertCache::take_slot_for(Guess kind, SliceKey key, SlotIndex &index) {
    const size_t slot_class = plan_.class_of_bank[key.bank];
    if (kind == Guess::WarmStart && classes_[slot_class].free.empty()) {
        return nullptr;
    }
    return take_slot(slot_class, index, true);
}

/// Somebody asks for a slice that is there or on its way.
void ExpertCache::ask(Slot &slot) {
    ++asked_[slot.key.bank][slot.key.expert];
    const bool loading = slot.state.load(std::memory_order_relaxed) == SlotState::Loading;
    if (slot.guess) {
        GuessCounters &counters = guesses_.counters(*slot.guess);
        ++counters.used;
        counters.late += loading ? 1 : 0;
        slot.guess.reset();
    }
    if (loading && !slot.awaited) {
        slot.awaited = true;
        ++awaited_;
    }
}

bool ExpertCache::holds(std::span<const SliceKey> keys) const {
    const std::lock_guard lock(mutex_);
    return std::all_of(keys.begin(), keys.end(),
                       [this](const SliceKey &key) { return slot_of_[key.bank][key.expert] >= 0; });
}

std::vector<ExpertCache::BankUse> ExpertCache::use() const {
    const std::lock_guard lock(mutex_);
    std::vector<BankUse> use;
    use.reserve(banks_.size());
    for (size_t bank = 0; bank < banks_.size(); ++bank) {
        BankUse &one = use.emplace_back();
        one.asked = asked_[bank];
        for (const int32_t slot : slot_of_[bank]) {
            one.there.push_back(slot >= 0);
        }
    }
    return use;
}

std::vector<SliceKey> ExpertCache::residents() const {
    std::vector<std::pair<uint32_t, SliceKey>> found;
    {
        const std::lock_guard lock(mutex_);
        for (uint32_t bank = 0; bank < slot_of_.size(); ++bank) {
            for (uint32_t expert = 0; expert < slot_of_[bank].size(); ++expert) {
                if (slot_of_[bank][expert] >= 0) {
                    found.emplace_back(asked_[bank][expert], SliceKey{bank, expert});
                }
            }
        }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<SliceKey> keys;
    keys.reserve(found.size());
    for (const auto &[asked, key] : found) {
        keys.push_back(key);
    }
    return keys;
}

} // namespace sluice::residency
