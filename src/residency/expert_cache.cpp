#include "residency/expert_cache.h"

#include "storage/split_reads.h"

#include <functional>
#include <new>
#include <utility>

namespace sluice::residency {

namespace {

// Fewer reads than this leave a device idle: they are split.
constexpr size_t kLanesOfADevice = 4;

} // namespace

Result<std::unique_ptr<ExpertCache>> ExpertCache::create(std::vector<Bank> banks, const CacheConfig &config,
                                                         storage::IReadEngine &engine) {
    auto plan = plan_slots(banks, config.layers, config.capacity_bytes, config.access);
    if (!plan) {
        return fail(plan.error());
    }
    auto arena = platform::ReservedMemory::reserve(plan->arena_bytes, platform::MemoryUse::Arena);
    if (!arena) {
        return fail(arena.error().with_context("cannot allocate the expert cache"));
    }
    return std::unique_ptr<ExpertCache>(
        new ExpertCache(std::move(banks), std::move(*plan), config, engine, std::move(*arena)));
}

ExpertCache::ExpertCache(std::vector<Bank> banks, SlotPlan plan, const CacheConfig &config,
                         storage::IReadEngine &engine, platform::ReservedMemory arena)
    : banks_(std::move(banks)), plan_(std::move(plan)), layout_(make_routing_layout(banks_, config.layers)),
      access_(config.access), engine_(engine), arena_(std::move(arena)) {
    std::byte *next = arena_.bytes().data();
    for (const SlotClass &slot_class : plan_.classes) {
        ClassState &state = classes_.emplace_back();
        state.policy = make_policy(config.policy, slot_class.slots, layout_);
        for (size_t i = 0; i < slot_class.slots; ++i) {
            state.slots.push_back(std::make_unique<Slot>());
            state.slots.back()->base = next;
            next += slot_class.stride;
        }
        // Taken from the back, so that slots fill in address order.
        for (size_t i = slot_class.slots; i-- > 0;) {
            state.free.push_back(static_cast<SlotIndex>(i));
        }
    }
    for (const Bank &bank : banks_) {
        slot_of_.emplace_back(bank.expert_count, -1);
        ever_read_.emplace_back(bank.expert_count, false);
        asked_.emplace_back(bank.expert_count, 0);
    }
}

ExpertCache::~ExpertCache() {
    wait_idle();
}

void ExpertCache::wait_idle() {
    std::unique_lock lock(mutex_);
    guesses_.drop(Guess::NextLayer);
    guesses_.drop(Guess::WarmStart);
    idle_.wait(lock, [this] { return in_flight_ == 0; });
}

void ExpertCache::routed(BankId bank, std::span<const uint32_t> experts, size_t per_token) {
    const uint32_t layer = layout_.layer_of_bank[bank];
    const std::lock_guard lock(mutex_);
    guesses_.drop(Guess::NextLayer); // now it is known
    for (size_t done = 0; done < experts.size(); done += per_token) {
        for (const ClassState &state : classes_) {
            state.policy->routed(layer, experts.subspan(done, per_token));
        }
    }
}

size_t ExpertCache::acquire(std::span<const SliceKey> keys, std::span<Slot *> slots) {
    std::vector<storage::ReadRequest> requests;
    std::vector<Slot *> targets;
    requests.reserve(keys.size()); // nothing may throw between binding a slot and submitting its read
    targets.reserve(keys.size());
    size_t acquired = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto pin_if_there = [&](size_t i) {
            slots[i] = find(keys[i]);
            if (slots[i] == nullptr) {
                return false;
            }
            touch(keys[i]);
            ask(*slots[i]);
            ++counters_.hits;
            ++slots[i]->pins;
            ++acquired;
            return true;
        };
        for (size_t i = 0; i < keys.size(); ++i) {
            pin_if_there(i);
        }
        for (size_t i = 0; i < keys.size(); ++i) {
            if (slots[i] != nullptr || pin_if_there(i)) {
                continue; // there before, or asked for twice
            }
            SlotIndex index = 0;
            Slot *slot = take_slot(plan_.class_of_bank[keys[i].bank], index);
            if (slot == nullptr) {
                break; // in order: what comes later must not overtake
            }
            requests.push_back(bind(*slot, index, keys[i], std::nullopt));
            targets.push_back(slot);
            ++asked_[keys[i].bank][keys[i].expert];
            ++counters_.misses;
            slots[i] = slot;
            ++slot->pins;
            ++acquired;
        }
    }
    submit(requests, targets);
    return acquired;
}

void ExpertCache::prefetch(std::span<const SliceKey> keys) {
    std::vector<storage::ReadRequest> requests;
    std::vector<Slot *> targets;
    std::vector<Slot *> resident;
    std::vector<bool> full(classes_.size(), false);
    requests.reserve(keys.size());
    targets.reserve(keys.size());
    resident.reserve(keys.size());
    {
        const std::lock_guard lock(mutex_);
        for (const SliceKey key : keys) {
            if (Slot *slot = find(key)) {
                touch(key);
                ++slot->pins; // for as long as we choose victims
                resident.push_back(slot);
            }
        }
        for (const SliceKey key : keys) {
            const size_t slot_class = plan_.class_of_bank[key.bank];
            if (full[slot_class] || find(key) != nullptr) {
                continue;
            }
            SlotIndex index = 0;
            Slot *slot = take_slot(slot_class, index);
            if (slot == nullptr) {
                full[slot_class] = true;
                continue;
            }
            requests.push_back(bind(*slot, index, key, std::nullopt));
            targets.push_back(slot);
            ++counters_.prefetched;
            counters_.prefetched_bytes += banks_[key.bank].slice_bytes;
        }
        for (Slot *slot : resident) {
            --slot->pins;
        }
    }
    submit(requests, targets);
}

void ExpertCache::submit(std::span<storage::ReadRequest> requests, std::span<Slot *const> targets) {
    if (requests.empty()) {
        return;
    }
    try {
        std::vector<storage::ReadRequest> parts = storage::split_few(requests, kLanesOfADevice);
        engine_.submit(parts);
    } catch (const std::bad_alloc &) {
        for (Slot *slot : targets) {
            finished(*slot, fail(ErrorCode::OutOfMemory, "no memory to queue a read"));
        }
    }
}

void ExpertCache::touch(SliceKey key) {
    classes_[plan_.class_of_bank[key.bank]].policy->used(
        static_cast<SlotIndex>(slot_of_[key.bank][key.expert]), key);
}

void ExpertCache::wake_waiters() {
    arrivals_.fetch_add(1, std::memory_order_release);
    arrivals_.notify_all();
}

Slot *ExpertCache::find(SliceKey key) {
    const int32_t index = slot_of_[key.bank][key.expert];
    return index < 0 ? nullptr
                     : classes_[plan_.class_of_bank[key.bank]].slots[static_cast<size_t>(index)].get();
}

Slot *ExpertCache::take_slot(size_t slot_class, SlotIndex &index, bool keep_expected) {
    ClassState &state = classes_[slot_class];
    if (!state.free.empty()) {
        index = state.free.back();
        state.free.pop_back();
        return state.slots[index].get();
    }
    const auto evictable = [&](SlotIndex candidate) {
        const Slot &slot = *state.slots[candidate];
        return slot.pins == 0 && slot.state.load(std::memory_order_acquire) == SlotState::Ready &&
               !(keep_expected && guesses_.expects(slot.key));
    };
    // By reference: a copy would be allocated, and nothing may throw between binding slots and reading.
    const auto victim = state.policy->victim(std::cref(evictable));
    if (!victim) {
        return nullptr;
    }
    index = *victim;
    Slot &slot = *state.slots[index];
    slot_of_[slot.key.bank][slot.key.expert] = -1;
    state.policy->forgotten(index);
    ++counters_.evictions;
    return &slot;
}

storage::ReadRequest ExpertCache::bind(Slot &slot, SlotIndex index, SliceKey key,
                                       std::optional<Guess> guess) {
    const Bank &bank = banks_[key.bank];
    const size_t block = read_block(bank, access_);
    const uint64_t begin = bank.offset + uint64_t{key.expert} * bank.slice_bytes;
    const size_t residue = static_cast<size_t>(begin % block);
    const size_t length = (residue + bank.slice_bytes + block - 1) / block * block;

    slot.key = key;
    slot.guess = guess;
    slot.awaited = !guess;
    slot.repacked = false;
    slot.has_pages = true;
    slot.data = slot.base + residue;
    slot.state.store(SlotState::Loading, std::memory_order_relaxed);
    slot_of_[key.bank][key.expert] = static_cast<int32_t>(index);
    classes_[plan_.class_of_bank[key.bank]].policy->used(index, key);

    counters_.rereads += ever_read_[key.bank][key.expert] ? 1 : 0;
    ever_read_[key.bank][key.expert] = true;
    counters_.bytes_read += bank.slice_bytes;
    ++in_flight_;
    awaited_ += slot.awaited ? 1 : 0;
    if (guess) {
        ++counters_.prefetched;
        counters_.prefetched_bytes += bank.slice_bytes;
        ++guesses_.counters(*guess).reads;
        guesses_.counters(*guess).bytes += bank.slice_bytes;
    }

    return storage::ReadRequest{
        .file = bank.file,
        .offset = begin - residue,
        .into = {slot.base, length},
        .needed = residue + bank.slice_bytes,
        .access = block > 1 ? platform::Access::Direct : platform::Access::Buffered,
        .done = [this, target = &slot](const Status &status) { finished(*target, status); },
    };
}

/// On a thread that reads, where nothing may throw.
Error ExpertCache::error_of(const Slot &slot, const Error &cause) const noexcept {
    try {
        return cause.with_context("expert " + std::to_string(slot.key.expert) + " of " +
                                  banks_[slot.key.bank].name);
    } catch (const std::bad_alloc &) {
        return {ErrorCode::OutOfMemory, "out of memory"}; // short enough to need none
    }
}

void ExpertCache::finished(Slot &slot, const Status &status) {
    // Once in_flight_ is 0 and the lock is free, the destructor may run.
    std::unique_lock lock(mutex_);
    if (status) {
        slot.state.store(SlotState::Ready, std::memory_order_release);
    } else {
        ++counters_.errors;
        slot.error = error_of(slot, status.error());
        slot.state.store(SlotState::Failed, std::memory_order_release);
        if (slot.pins == 0) {
            forget(slot);
        }
    }
    arrivals_.fetch_add(1, std::memory_order_release);
    arrivals_.notify_all();
    --in_flight_;
    awaited_ -= slot.awaited ? 1 : 0;
    slot.awaited = false;
    Bound bound;
    if (!guesses_.empty()) {
        bound = bind_guesses();
    }
    idle_.notify_all();
    if (!bound.requests.empty()) {
        lock.unlock();
        submit(bound.requests, bound.targets);
    }
}

void ExpertCache::release(Slot *slot) {
    std::lock_guard lock(mutex_);
    --slot->pins;
    if (slot->pins == 0 && slot->state.load(std::memory_order_acquire) == SlotState::Failed) {
        forget(*slot);
    }
}

void ExpertCache::forget(Slot &slot) {
    int32_t &index = slot_of_[slot.key.bank][slot.key.expert];
    ClassState &state = classes_[plan_.class_of_bank[slot.key.bank]];
    state.policy->forgotten(static_cast<SlotIndex>(index));
    state.free.push_back(static_cast<SlotIndex>(index));
    slot.state.store(SlotState::Empty, std::memory_order_relaxed);
    index = -1;
}

ExpertCounters ExpertCache::counters() const {
    std::lock_guard lock(mutex_);
    ExpertCounters counters = counters_;
    for (const Guess kind : {Guess::NextLayer, Guess::WarmStart}) {
        counters.guesses[static_cast<size_t>(kind)] = guesses_.counters(kind);
    }
    return counters;
}

size_t ExpertCache::occupied_slots() const {
    std::lock_guard lock(mutex_);
    size_t occupied = 0;
    for (const ClassState &state : classes_) {
        occupied += state.slots.size() - state.free.size() - state.parked.size();
    }
    return occupied;
}

} // namespace sluice::residency
