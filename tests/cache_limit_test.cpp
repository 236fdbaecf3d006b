// An expert cache that gives memory back while it is used, and takes it again.

#include "platform/page_residency.h"
#include "residency/slot_plan.h"
#include "support/expert_cache_fixture.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace sluice::residency {
namespace {

using platform::Access;
using test::kExperts;
using test::kOffset;

constexpr size_t kLargeSlice = size_t{80} << 10U; // dozens of pages: what is given back can be seen
constexpr size_t kSlots = 8;

class CacheLimit : public test::ExpertCacheFixture {
protected:
    CacheLimit() : ExpertCacheFixture(kLargeSlice) {}

    /// Reads the first `count` experts in order, into a cache of kSlots.
    void fill(uint32_t count, CachePolicy policy = CachePolicy::Lru) {
        make_cache(kSlots, policy);
        for (uint32_t expert = 0; expert < count; ++expert) {
            use(expert);
        }
    }

    void use(uint32_t expert) {
        Slot *slot = acquire({expert})[0];
        expect_slice(slot, expert);
        first_ = std::min(first_, slot->base);
        last_ = std::max(last_, slot->base);
        cache_->release(slot);
    }

    bool resident(uint32_t expert) {
        const uint64_t hits = cache_->counters().hits;
        use(expert);
        return cache_->counters().hits > hits;
    }

    /// Bytes of the slots used so far that are in memory, as the system sees it.
    double bytes_in_memory() const {
        const std::array<platform::ByteRange, 1> arena{platform::ByteRange(first_, last_ + stride_)};
        const auto share = platform::sample_residency(arena, 4096).resident;
        return share ? *share * static_cast<double>(arena[0].size()) : -1;
    }

    std::byte *first_ = reinterpret_cast<std::byte *>(UINTPTR_MAX);
    std::byte *last_ = nullptr;
};

TEST_P(CacheLimit, IsTheWholeArenaAtFirst) {
    make_cache(kSlots);
    EXPECT_EQ(cache_->limit(), kSlots * stride_);
}

TEST_P(CacheLimit, ShrinkingGivesUpSlicesThatNobodyUses) {
    fill(kSlots);
    EXPECT_EQ(cache_->set_limit(3 * stride_), 3 * stride_);
    EXPECT_EQ(cache_->limit(), 3 * stride_);
    EXPECT_EQ(cache_->occupied_slots(), 3U);
    EXPECT_EQ(cache_->counters().evictions, 5U);
}

TEST_P(CacheLimit, ShrinkingGivesUpFirstWhatThePolicyWouldEvictFirst) {
    fill(kSlots);
    use(0); // now the last that least recent use would drop
    cache_->set_limit(3 * stride_);
    for (const uint32_t kept : {6U, 7U, 0U}) {
        EXPECT_TRUE(resident(kept)) << kept;
    }
    EXPECT_FALSE(resident(1));
}

TEST_P(CacheLimit, ShrinkingTakesSlotsThatHoldNothingFirst) {
    fill(2);
    cache_->set_limit(2 * stride_);
    EXPECT_EQ(cache_->counters().evictions, 0U);
    EXPECT_TRUE(resident(0));
    EXPECT_TRUE(resident(1));
}

TEST_P(CacheLimit, PagesGivenUpGoBackToTheSystem) {
    fill(kSlots);
    const double before = bytes_in_memory();
    if (before < 0) {
        GTEST_SKIP() << "this system does not tell which pages are in memory";
    }
    const auto given_up = static_cast<double>(6 * stride_);
    EXPECT_GE(before, static_cast<double>(kSlots * kLargeSlice));
    cache_->set_limit(2 * stride_);
    // A page that two slots share stays.
    EXPECT_LE(bytes_in_memory(), before - given_up + static_cast<double>(8 * platform::page_size()));
}

TEST_P(CacheLimit, HoldsNoMoreThanWasReadInto) {
    fill(3);
    EXPECT_EQ(cache_->held_bytes(), 3 * stride_);
    cache_->set_limit(3 * stride_);
    EXPECT_EQ(cache_->held_bytes(), 3 * stride_) << "slots that hold nothing went first";
    cache_->set_limit(2 * stride_);
    EXPECT_EQ(cache_->held_bytes(), 2 * stride_);
    cache_->set_limit(kSlots * stride_);
    EXPECT_EQ(cache_->held_bytes(), 2 * stride_);
    use(0);
    EXPECT_EQ(cache_->held_bytes(), 3 * stride_);
}

TEST_P(CacheLimit, PagesOfSlicesThatWereForgottenGoBackThoughTheirSlotsStayInUse) {
    make_cache(kSlots);
    std::vector<Slot *> held = acquire({0, 1, 2, 3});
    for (uint32_t expert = 0; expert < 4; ++expert) {
        expect_slice(held[expert], expert);
        first_ = std::min(first_, held[expert]->base);
        last_ = std::max(last_, held[expert]->base);
        ExpertCache::spoil(held[expert]);
        cache_->release(held[expert]); // forgets it
    }
    EXPECT_EQ(cache_->occupied_slots(), 0U);
    EXPECT_EQ(cache_->held_bytes(), 4 * stride_);
    cache_->set_limit(6 * stride_);
    EXPECT_EQ(cache_->held_bytes(), 0U);
    if (const double left = bytes_in_memory(); left >= 0) {
        EXPECT_LE(left, static_cast<double>(8 * platform::page_size())) << "pages that slots share stay";
    }
}

TEST_P(CacheLimit, SlicesThatAreKeptStayAsTheyAreAndAreNotReadAgain) {
    fill(kSlots);
    const std::vector<Slot *> held = acquire({2, 5});
    cache_->set_limit(3 * stride_);
    const uint64_t reads = plan_->counts().reads;
    expect_slice(held[0], 2);
    expect_slice(held[1], 5);
    EXPECT_TRUE(resident(7));
    EXPECT_EQ(plan_->counts().reads, reads);
}

TEST_P(CacheLimit, SlicesGivenUpAreReadAgainWhole) {
    fill(kSlots);
    cache_->set_limit(2 * stride_);
    for (uint32_t expert = 0; expert < 6; ++expert) {
        use(expert); // checks every byte
    }
    EXPECT_EQ(cache_->counters().rereads, 6U);
}

TEST_P(CacheLimit, NeverGoesBelowWhatOneLayerNeedsForOneToken) {
    fill(kSlots);
    EXPECT_EQ(cache_->set_limit(0), stride_);
    use(3);
    use(4);
    EXPECT_EQ(cache_->occupied_slots(), 1U);
}

TEST_P(CacheLimit, IsMoreThanAskedForWhileTooMuchIsPinned) {
    fill(kSlots);
    const std::vector<Slot *> held = acquire({0, 1, 2, 3, 4});
    EXPECT_EQ(cache_->set_limit(2 * stride_), 5 * stride_);
    for (uint32_t expert = 0; expert < 5; ++expert) {
        expect_slice(held[expert], expert);
        cache_->release(held[expert]);
    }
    EXPECT_EQ(cache_->limit(), 5 * stride_) << "nothing happens until asked again";
    EXPECT_EQ(cache_->set_limit(2 * stride_), 2 * stride_);
}

TEST_P(CacheLimit, LeavesSlotsInFlightAlone) {
    make_cache(kSlots);
    plan_->add({.nth = 1, .and_after = true, .delay = std::chrono::milliseconds(50)});
    const std::vector<Slot *> asked = acquire({0, 1, 2});
    for (Slot *slot : asked) {
        cache_->release(slot); // not pinned, but the kernel may still write there
    }
    EXPECT_EQ(cache_->set_limit(0), 3 * stride_);
    for (uint32_t expert = 0; expert < 3; ++expert) {
        expect_slice(asked[expert], expert);
    }
    EXPECT_EQ(cache_->set_limit(0), stride_);
}

TEST_P(CacheLimit, GrowsBackAndFillsAgainWithoutEvicting) {
    fill(kSlots);
    cache_->set_limit(stride_);
    EXPECT_EQ(cache_->set_limit(6 * stride_), 6 * stride_);
    const uint64_t evictions = cache_->counters().evictions;
    for (uint32_t expert = 8; expert < 13; ++expert) {
        use(expert);
    }
    EXPECT_EQ(cache_->counters().evictions, evictions);
    EXPECT_EQ(cache_->occupied_slots(), 6U);
    use(13);
    EXPECT_EQ(cache_->counters().evictions, evictions + 1) << "six slots, not seven";
}

TEST_P(CacheLimit, GrowsNoLargerThanItWasMade) {
    fill(kSlots);
    cache_->set_limit(0);
    EXPECT_EQ(cache_->set_limit(SIZE_MAX), kSlots * stride_);
}

TEST_P(CacheLimit, ChangesWhileSlicesAreUsedWithoutHarm) {
    make_cache(kSlots, CachePolicy::NextUse);
    std::atomic<bool> done{false};
    std::thread system([&] {
        for (size_t slots = 1; !done; slots = slots % kSlots + 1) {
            cache_->set_limit(slots * stride_);
            std::this_thread::yield();
        }
    });
    for (uint32_t turn = 0; turn < 400; ++turn) {
        use(turn * 7 % kExperts); // one is always to be had
    }
    done = true;
    system.join();
    EXPECT_GT(cache_->counters().rereads, 0U);
}

INSTANTIATE_TEST_SUITE_P(Access, CacheLimit, testing::Values(Access::Buffered, Access::Direct),
                         test::access_name);

// -- other numbers and sizes of slots
// --------------------------------------------------------------------------------------------------

TEST(CacheLimitOfManySlots, SetToWhatItIsChangesNothing) {
    const test::ScratchDir dir;
    constexpr size_t kSmall = 64;
    constexpr uint32_t kMany = 100; // some of whose fractions are not exact in floating point
    const auto file =
        std::move(*platform::system_files().open(dir.write_pattern("experts", kMany * kSmall), true));
    const auto engine = std::move(*storage::make_thread_read_engine(1));
    for (uint32_t slots = 1; slots <= kMany; ++slots) {
        auto cache = ExpertCache::create(
            {{.name = "small", .file = file.get(), .slice_bytes = kSmall, .expert_count = kMany}},
            {.capacity_bytes = slots * kSmall, .access = Access::Buffered, .layers = {{{0}, 1}}}, *engine);
        ASSERT_TRUE(cache) << cache.error().message;
        for (size_t used = slots; used > 0; --used) {
            ASSERT_EQ((*cache)->set_limit(used * kSmall), used * kSmall) << used << " of " << slots;
        }
    }
}

TEST(CacheLimitOfTwoSizes, SharesWhatIsLeftAndKeepsTheMinimumOfEach) {
    const test::ScratchDir dir;
    constexpr size_t kSmall = 8192;
    constexpr size_t kBig = 65536;
    const auto file = std::move(
        *platform::system_files().open(dir.write_pattern("experts", kExperts * (kSmall + kBig)), true));
    const auto engine = std::move(*storage::make_thread_read_engine(1));
    const std::vector<Bank> banks{
        {.name = "small", .file = file.get(), .slice_bytes = kSmall, .expert_count = kExperts},
        {.name = "big",
         .file = file.get(),
         .offset = kExperts * kSmall,
         .slice_bytes = kBig,
         .expert_count = kExperts}};
    auto cache = ExpertCache::create(
        banks, {.capacity_bytes = SIZE_MAX / 2, .access = Access::Buffered, .layers = {{{0}, 4}, {{1}, 2}}},
        *engine);
    ASSERT_TRUE(cache) << cache.error().message;
    const size_t all = (*cache)->plan().arena_bytes;
    ASSERT_EQ(all, kExperts * (kSmall + kBig));
    EXPECT_EQ((*cache)->set_limit(all / 2), all / 2) << "half of each";
    EXPECT_EQ((*cache)->set_limit(0), (*cache)->plan().minimum_bytes);
    EXPECT_EQ((*cache)->plan().minimum_bytes, 4 * kSmall + 2 * kBig);

    std::vector<SliceKey> keys{{0, 1}, {0, 2}, {0, 3}, {0, 4}};
    std::vector<Slot *> slots(keys.size());
    EXPECT_EQ((*cache)->acquire(keys, slots), 4U) << "a layer's experts can still be had together";
    for (Slot *slot : slots) {
        (*cache)->release(slot);
    }
    EXPECT_EQ((*cache)->set_limit(all), all);
}

} // namespace
} // namespace sluice::residency
