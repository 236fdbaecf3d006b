// The expert cache: one arena of slots, filled in place by background reads.
#pragma once

#include "base/error.h"
#include "platform/reserved_memory.h"
#include "residency/eviction_policy.h"
#include "residency/guess_queue.h"
#include "residency/slot_plan.h"
#include "storage/read_engine.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace sluice::residency {

enum class SlotState : uint32_t {
    Empty,   ///< holds nothing
    Loading, ///< a read is on its way
    Ready,   ///< the slice's bytes are there
    Failed,  ///< the read failed; see Slot::error
};

/// One place for one slice. Fields but `state` belong to the cache's lock; holders of a pin may read `data`
/// once `state` is Ready, or, agreed among them, give it another layout and set `repacked`; and read `error`
/// once it is Failed.
struct Slot {
    std::atomic<SlotState> state{SlotState::Empty};
    uint32_t pins = 0;
    SliceKey key;
    std::optional<Guess> guess; ///< it was read on a guess, and nobody has asked for it yet
    bool awaited = false;       ///< while Loading: somebody asked for it, or will surely
    std::byte *base = nullptr;  ///< start of the slot, block-aligned
    std::byte *data = nullptr;  ///< the slice: base plus the slice's file offset modulo the block
    bool repacked = false;      ///< whoever holds a pin has given the slice another layout
    bool has_pages = false;     ///< it was read into since its pages were last given back
    Error error;
};

/// Totals since creation, in slices and bytes.
struct ExpertCounters {
    uint64_t hits = 0;             ///< slices asked for that were there or on their way
    uint64_t misses = 0;           ///< slices asked for that had to be read
    uint64_t evictions = 0;        ///< slices dropped to make room
    uint64_t rereads = 0;          ///< reads of slices that had been read before, asked for or prefetched
    uint64_t prefetched = 0;       ///< slices read before anyone asked for them; not counted as misses
    uint64_t prefetched_bytes = 0; ///< slice bytes of those
    uint64_t bytes_read = 0; ///< slice bytes asked of storage, padding not counted, prefetched ones included
    uint64_t errors = 0;     ///< reads that failed
    std::array<GuessCounters, kGuessKinds> guesses = {}; ///< by Guess; their reads count as prefetched, too
};

struct CacheConfig {
    size_t capacity_bytes = 0;
    platform::Access access = platform::Access::Direct; ///< what to use where the file trusts it
    std::vector<LayerNeed> layers;
    CachePolicy policy = CachePolicy::NextUse; ///< who makes room for what is missing
};

/// Thread-safe. Reads land directly in the slots: no bounce buffer and no copy. Only slices of banks that
/// have slots (has_slots()) may be asked for.
class ExpertCache {
public:
    /// Allocates the arena (lazily committed by the system). `engine` and the banks' files outlive the cache.
    /// Errors: OutOfMemory (capacity below the minimum, or the reservation refused).
    static Result<std::unique_ptr<ExpertCache>> create(std::vector<Bank> banks, const CacheConfig &config,
                                                       storage::IReadEngine &engine);

    /// Waits for reads in flight.
    ~ExpertCache();
    ExpertCache(const ExpertCache &) = delete;
    ExpertCache &operator=(const ExpertCache &) = delete;

    /// Tells the policy the decision that comes next: `experts` are those of the tokens one after the other,
    /// `per_token` each, chosen for `bank` and the other banks of its layer. An expert that a token chose
    /// more than once counts once. Before their slices are acquired.
    void routed(BankId bank, std::span<const uint32_t> experts, size_t per_token);

    /// Pins as many of `keys` as slots can be had for: first those resident or on their way, so that none of
    /// them is evicted for another, then the rest in order, starting a read for each. Writes a slot or null
    /// per key to `slots` (keys.size() long) and returns how many are not null. A key that comes twice has
    /// one slot and two pins. Fewer than asked means: release some or wait for an arrival, then ask again for
    /// those that are null.
    size_t acquire(std::span<const SliceKey> keys, std::span<Slot *> slots);

    /// Starts reads for those of `keys` that are not resident, in order, while slots can be had; pins
    /// nothing. Those resident count as just used, so that none of them makes room for another.
    void prefetch(std::span<const SliceKey> keys);

    /// Slices that may be asked for. They are read in order, a few at a time, only while no read that
    /// somebody waits for is on its way; nothing is pinned. What is left of earlier guesses of that kind is
    /// given up. The next layer's take the place of what the policy gives up, but not of one another's;
    /// routed() ends them. A warm start's only fill slots that hold nothing. Thread-safe.
    void guess(Guess kind, std::span<const SliceKey> keys);

    /// Whether all of `keys` are there or on their way. Thread-safe.
    [[nodiscard]] bool holds(std::span<const SliceKey> keys) const;

    /// The slices that are there, the most often asked for first.
    [[nodiscard]] std::vector<SliceKey> residents() const;

    /// A pinned slot's bytes are spoilt: it is forgotten with its last pin. Thread-safe.
    static void spoil(Slot *slot) { slot->state.store(SlotState::Failed, std::memory_order_release); }

    /// One bank's experts as they are at one moment.
    struct BankUse {
        std::vector<uint32_t> asked; ///< how often each slice was asked for, in all
        std::vector<bool> there;     ///< or on its way
    };
    /// By BankId. Thread-safe.
    [[nodiscard]] std::vector<BankUse> use() const;

    /// Takes back one pin. A slot whose read failed is forgotten with its last pin, so that the next
    /// acquire reads again.
    void release(Slot *slot);

    /// A number that changes whenever a read ended; take it before looking at states, then wait on it.
    [[nodiscard]] uint32_t arrivals() const { return arrivals_.load(std::memory_order_acquire); }

    /// Sleeps until arrivals() differs from `seen`.
    void wait_for_arrival(uint32_t seen) const { arrivals_.wait(seen, std::memory_order_acquire); }

    /// Makes do with about `bytes` of the arena, shared by the classes as the plan shares it and never below
    /// their minimum: slots that hold nothing go first, then slices that are neither pinned nor on their way,
    /// those to be evicted first. Pages of both are given back to the system. A larger number takes slots
    /// back into use. Returns what is in use now; more than asked while too much is pinned: ask again between
    /// graphs. Thread-safe.
    size_t set_limit(size_t bytes);

    /// Bytes of slots that were read into since their pages were last given back: no more than limit(), and
    /// less while it fills. To have memory back at once, set a limit below this. Thread-safe.
    [[nodiscard]] size_t held_bytes() const;

    /// Slots in use of the class at this index of the plan: all, unless set_limit() said otherwise.
    [[nodiscard]] size_t slots_in_use(size_t slot_class) const;

    /// Bytes of slots in use: all of the arena unless set_limit() said otherwise.
    [[nodiscard]] size_t limit() const;

    /// Gives up all guesses and sleeps until no read is in flight.
    void wait_idle();

    /// Wakes those who wait_for_arrival() though nothing arrived: something else changed for them.
    void wake_waiters();

    [[nodiscard]] ExpertCounters counters() const;
    [[nodiscard]] const SlotPlan &plan() const { return plan_; }
    /// Whether a layer that the cache was made for uses the bank.
    [[nodiscard]] bool has_slots(BankId bank) const { return plan_.class_of_bank[bank] != kNoClass; }
    [[nodiscard]] const RoutingLayout &layout() const { return layout_; }

    /// Number of slots holding or awaiting a slice now.
    [[nodiscard]] size_t occupied_slots() const;

private:
    struct ClassState {
        std::vector<std::unique_ptr<Slot>> slots;
        std::vector<SlotIndex> free;
        std::vector<SlotIndex> parked; ///< out of use, their pages given back
        std::unique_ptr<IEvictionPolicy> policy;
    };

    ExpertCache(std::vector<Bank> banks, SlotPlan plan, const CacheConfig &config,
                storage::IReadEngine &engine, platform::ReservedMemory arena);
    Slot *find(SliceKey key);
    Slot *take_slot(size_t slot_class, SlotIndex &index, bool keep_expected = false);
    Slot *take_slot_for(Guess kind, SliceKey key, SlotIndex &index);
    storage::ReadRequest bind(Slot &slot, SlotIndex index, SliceKey key, std::optional<Guess> guess);
    void ask(Slot &slot);

    /// Reads bound under the lock, to be submitted after it.
    struct Bound {
        std::vector<storage::ReadRequest> requests;
        std::vector<Slot *> targets;
    };
    Bound bind_guesses();
    void touch(SliceKey key);
    void submit(std::span<storage::ReadRequest> requests, std::span<Slot *const> targets);
    void finished(Slot &slot, const Status &status);
    Error error_of(const Slot &slot, const Error &cause) const noexcept;
    void forget(Slot &slot);
    void discard(size_t slot_class, SlotIndex index);
    size_t bytes_in_use() const;

    const std::vector<Bank> banks_;
    const SlotPlan plan_;
    const RoutingLayout layout_;
    const platform::Access access_;
    storage::IReadEngine &engine_;
    platform::ReservedMemory arena_;

    mutable std::mutex mutex_;
    std::condition_variable idle_;
    size_t in_flight_ = 0; ///< reads
    size_t awaited_ = 0;   ///< of those, not on a guess
    GuessQueue guesses_;
    std::vector<ClassState> classes_;
    std::vector<std::vector<int32_t>> slot_of_; // [bank][expert], -1: not resident
    std::vector<std::vector<bool>> ever_read_;  // [bank][expert]
    std::vector<std::vector<uint32_t>> asked_;  // [bank][expert], how often
    ExpertCounters counters_;
    std::atomic<uint32_t> arrivals_{0};
};

} // namespace sluice::residency
