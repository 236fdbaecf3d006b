// The slot plan and the expert cache, on real files.

#include "options/cache_policy.h"
#include "residency/slot_plan.h"
#include "support/expert_cache_fixture.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace sluice::residency {
namespace {

using platform::Access;
using test::ExpertCacheFixture;
using test::kExperts;
using test::kSlice;
using test::ScratchDir;

// -- slot plan
// ----------------------------------------------------------------------------------------------------

class SlotPlanTest : public testing::Test {
protected:
    Bank bank(uint64_t offset, size_t slice, uint32_t experts) {
        return {.name = "b",
                .file = file_.get(),
                .offset = offset,
                .slice_bytes = slice,
                .expert_count = experts};
    }
    ScratchDir dir_;
    std::unique_ptr<platform::IFile> file_ =
        *platform::system_files().open(dir_.write_pattern("f", 1 << 20), true);
};

TEST_F(SlotPlanTest, BufferedSlotsHaveNoBlockPadding) {
    const auto plan = plan_slots({bank(100, 1000, 8)}, {{{0}, 2}}, 1 << 20, Access::Buffered);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->classes.at(0).stride, 1024U);
    EXPECT_EQ(plan->classes.at(0).slots, 8U) << "never more slots than slices";
}

TEST_F(SlotPlanTest, DirectSlotsHoldTheWorstResidue) {
    if (!file_->direct_trusted()) {
        GTEST_SKIP() << file_->direct_refusal();
    }
    const size_t block = file_->alignment();
    // Slices of one block that start in the middle of a block touch two.
    EXPECT_EQ(slice_footprint(bank(block / 2, block, 4), block), 2 * block);
    EXPECT_EQ(slice_footprint(bank(block, block, 4), block), block);
}

TEST_F(SlotPlanTest, ClassesFollowSliceSizesWithinThreePercent) {
    const auto plan = plan_slots({bank(0, 100000, 4), bank(0, 98000, 4), bank(0, 50000, 4)}, {{{0, 1, 2}, 1}},
                                 1 << 20, Access::Buffered);
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->classes.size(), 2U);
    EXPECT_EQ(plan->class_of_bank, (std::vector<size_t>{0, 0, 1}));
}

TEST_F(SlotPlanTest, MinimumIsWhatTheHungriestLayerPins) {
    const std::vector<Bank> banks{bank(0, 1024, 8), bank(0, 1024, 8), bank(0, 4096, 8)};
    const std::vector<LayerNeed> layers{{{0, 1}, 3}, {{2}, 2}};
    const auto plan = plan_slots(banks, layers, 1 << 20, Access::Buffered);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->minimum_bytes, 6U * 1024 + 2 * 4096);
}

TEST_F(SlotPlanTest, BanksThatNoLayerUsesGetNoSlots) {
    const std::vector<Bank> used{bank(0, 4096, 8), bank(0, 1024, 8)};
    const auto without = plan_slots(used, {{{0}, 2}, {{1}, 2}}, 1 << 20, Access::Buffered);
    const std::vector<Bank> all{bank(0, 4096, 8), bank(0, 1024, 8), bank(0, 1024, 8), bank(0, 70000, 8)};
    const auto with = plan_slots(all, {{{0}, 2}, {{1}, 2}}, 1 << 20, Access::Buffered);
    ASSERT_TRUE(without && with);
    EXPECT_EQ(with->class_of_bank, (std::vector<size_t>{0, 1, kNoClass, kNoClass}));
    EXPECT_EQ(with->useful_bytes, without->useful_bytes);
    EXPECT_EQ(with->minimum_bytes, without->minimum_bytes);
    EXPECT_EQ(with->arena_bytes, without->arena_bytes);
}

TEST_F(SlotPlanTest, WithoutLayersNeedsNoMemory) {
    const auto plan = plan_slots({bank(0, 4096, 8)}, {}, 0, Access::Buffered);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->arena_bytes, 0U);
}

TEST_F(SlotPlanTest, BelowTheMinimumIsAnErrorThatNamesIt) {
    const auto plan = plan_slots({bank(0, 700000, 8)}, {{{0}, 4}}, 1 << 20, Access::Buffered);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::OutOfMemory);
    EXPECT_NE(plan.error().message.find("--cache-mb 3"), std::string::npos) << plan.error().message;
}

TEST_F(SlotPlanTest, CapacityIsNeverExceededAndHardlyWasted) {
    const std::vector<Bank> banks{bank(0, 30000, 64), bank(0, 30000, 64), bank(0, 44000, 64)};
    for (size_t capacity = 600000; capacity < 4000000; capacity += 123457) {
        const auto plan = plan_slots(banks, {{{0, 1, 2}, 4}}, capacity, Access::Buffered);
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->arena_bytes, capacity);
        EXPECT_GT(plan->arena_bytes + 44032, capacity) << "a whole slot was left unused";
    }
}

/// A file on a device of 4 KiB blocks, the largest that is common.
class LargeBlockFile final : public platform::IFile {
public:
    Result<size_t> read_at(uint64_t, std::span<std::byte>, Access) override { return size_t{0}; }
    Status map_over(uint64_t, std::span<std::byte>, platform::MapAdvice) override { return {}; }
    [[nodiscard]] uint64_t size() const override { return UINT64_MAX; }
    [[nodiscard]] size_t alignment() const override { return 4096; }
    [[nodiscard]] bool direct_trusted() const override { return true; }
    [[nodiscard]] const std::string &direct_refusal() const override { return path_; }
    [[nodiscard]] const std::string &path() const override { return path_; }

private:
    std::string path_ = "device";
};

/// Share of the arena that can hold no byte of a slice.
double padding_share(const SlotPlan &plan, const std::vector<Bank> &banks) {
    double payload = 0;
    for (size_t c = 0; c < plan.classes.size(); ++c) {
        double bytes = 0;
        double slices = 0;
        for (size_t b = 0; b < banks.size(); ++b) {
            const double experts = plan.class_of_bank[b] == c ? banks[b].expert_count : 0;
            bytes += experts * static_cast<double>(banks[b].slice_bytes);
            slices += experts;
        }
        payload += static_cast<double>(plan.classes[c].slots) * bytes / slices;
    }
    return 1.0 - payload / static_cast<double>(plan.arena_bytes);
}

TEST_F(SlotPlanTest, MixedQuantisationsLoseAtMostThreePercentOfTheCacheToPadding) {
    LargeBlockFile file;
    // Bytes of one expert's gate, up and down in files of real models; offsets as alignment to 32 allows.
    const std::vector<std::vector<size_t>> models = {
        {884736, 884736, 884736, 884736, 884736, 1290240},      // Qwen3-30B-A3B, Q4_K_M
        {4406400, 4406400, 4406400},                            // gpt-oss-20b, MXFP4
        {442368, 442368, 645120},                               // granite-4.0-h-tiny, Q4_K_M
        {1622016, 1622016, 1982464, 1622016, 1622016, 3063808}, // DeepSeek-V2-Lite, Q4_K_M
        {884736, 835584, 1081344, 1290240, 1671168, 905216},    // layers of five types, two nearly alike
    };
    for (const std::vector<size_t> &slices : models) {
        std::vector<Bank> banks;
        LayerNeed layer{.banks = {}, .experts_per_token = 4};
        uint64_t offset = 5952;
        for (const size_t slice : slices) {
            layer.banks.push_back(static_cast<BankId>(banks.size()));
            banks.push_back(
                {.name = "b", .file = &file, .offset = offset, .slice_bytes = slice, .expert_count = 64});
            offset += slice * 64 + 32 * banks.size();
        }
        for (const size_t mib : {40, 100, 300}) {
            const size_t capacity = std::max<size_t>(mib << 20U, slices.size() * 5 * slices.back());
            const auto plan = plan_slots(banks, {layer}, capacity, Access::Direct);
            ASSERT_TRUE(plan) << plan.error().message;
            EXPECT_LE(padding_share(*plan, banks), 0.03)
                << "slices of " << slices.back() << " bytes, " << mib;
        }
    }
}

TEST_F(SlotPlanTest, WorkingSetCountsEveryLayersExperts) {
    EXPECT_EQ(token_working_set({bank(0, 1000, 8), bank(0, 500, 8)}, {{{0}, 2}, {{1}, 3}}),
              2 * 1000U + 3 * 500U);
}

// -- expert cache
// -------------------------------------------------------------------------------------------------

using ExpertCacheTest = ExpertCacheFixture;

TEST_P(ExpertCacheTest, EverySliceArrivesWhole) {
    make_cache(kExperts);
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
        expect_slice(acquire({expert})[0], expert);
    }
    EXPECT_EQ(cache_->counters().misses, kExperts);
    EXPECT_EQ(cache_->counters().evictions, 0U);
    EXPECT_EQ(cache_->counters().bytes_read, kExperts * kSlice);
}

TEST_P(ExpertCacheTest, ASecondAskIsAHitAndReadsNothing) {
    make_cache(4);
    expect_slice(acquire({7})[0], 7);
    const uint64_t reads = plan_->counts().reads;
    expect_slice(acquire({7})[0], 7);
    EXPECT_EQ(plan_->counts().reads, reads);
    EXPECT_EQ(cache_->counters().hits, 1U);
}

TEST_P(ExpertCacheTest, PinnedSlotsAreNeverVictims) {
    make_cache(2);
    const auto held = acquire({0, 1});
    EXPECT_EQ(acquire({2})[0], nullptr);
    settle(held[1]);
    cache_->release(held[1]);
    expect_slice(acquire({2})[0], 2);
    expect_slice(held[0], 0);
    EXPECT_EQ(cache_->counters().evictions, 1U);
}

TEST_P(ExpertCacheTest, SlotsInFlightAreNeverVictims) {
    make_cache(1);
    plan_->add({.nth = 1, .delay = std::chrono::milliseconds(50)});
    Slot *slot = acquire({0})[0];
    cache_->release(slot); // as after an aborted graph: nobody waits, but the read still lands there
    EXPECT_EQ(acquire({1})[0], nullptr);
    settle(slot);
    expect_slice(acquire({1})[0], 1);
}

TEST_P(ExpertCacheTest, ResidentSlicesArePinnedBeforeMissesEvict) {
    make_cache(2);
    for (uint32_t expert : {0U, 1U}) {
        Slot *slot = acquire({expert})[0];
        settle(slot);
        cache_->release(slot);
    }
    // 0 is the least recently used; asked for together with a miss it must survive.
    const auto slots = acquire({5, 0});
    expect_slice(slots[0], 5);
    expect_slice(slots[1], 0);
    EXPECT_EQ(cache_->counters().hits, 1U);
}

/// Whether expert 1, used often but not lately, survived expert 3 in a cache of two slots.
TEST_P(ExpertCacheTest, ThePolicyAskedForChoosesTheVictims) {
    for (const CachePolicy policy : options::all_policies()) {
        SCOPED_TRACE(options::policy_name(policy));
        make_cache(2, policy);
        for (const std::vector<uint32_t> &decision :
             std::vector<std::vector<uint32_t>>{{1, 1, 1, 1, 1, 1}, {2}, {3}}) { // the first is six tokens'
            cache_->routed(0, decision, 1);
            Slot *slot = acquire({decision[0]})[0];
            expect_slice(slot, decision[0]);
            cache_->release(slot);
        }
        const uint64_t hits = cache_->counters().hits;
        expect_slice(acquire({1})[0], 1);
        EXPECT_EQ(cache_->counters().hits - hits, policy == CachePolicy::Lru ? 0U : 1U);
    }
}

TEST_P(ExpertCacheTest, ASliceAskedForTwiceAtOnceHasOneSlotAndTwoPins) {
    for (const CachePolicy policy : options::all_policies()) {
        SCOPED_TRACE(options::policy_name(policy));
        make_cache(2, policy);
        cache_->routed(0, std::vector<uint32_t>{3, 3}, 2);
        const auto twice = acquire({3, 3});
        ASSERT_EQ(twice[0], twice[1]);
        expect_slice(twice[0], 3);
        EXPECT_EQ(cache_->counters().misses, 1U);
        EXPECT_EQ(cache_->counters().hits, 1U);
        EXPECT_EQ(cache_->occupied_slots(), 1U);
        cache_->release(twice[0]);
        EXPECT_EQ(acquire({4, 5})[1], nullptr) << "3 is pinned still";
        cache_->release(twice[1]);
        expect_slice(acquire({5})[0], 5);
    }
}

TEST_P(ExpertCacheTest, EverySlotServesOthersAfterASliceWasAskedForTwice) {
    for (const CachePolicy policy : options::all_policies()) {
        SCOPED_TRACE(options::policy_name(policy));
        make_cache(2, policy);
        for (Slot *slot : acquire({3, 3})) {
            settle(slot);
            cache_->release(slot);
        }
        const auto others = acquire({0, 1});
        expect_slice(others[0], 0);
        expect_slice(others[1], 1);
        EXPECT_FALSE(cache_->holds(std::vector<SliceKey>{{0, 3}}));
    }
}

TEST_P(ExpertCacheTest, ASliceAskedForTwiceWhoseReadFailsIsForgottenOnce) {
    make_cache(2);
    plan_->add({.and_after = true, .error_number = EIO});
    const auto twice = acquire({3, 3});
    EXPECT_EQ(settle(twice[0]), SlotState::Failed);
    cache_->release(twice[0]);
    cache_->release(twice[1]);
    plan_->clear();
    EXPECT_EQ(cache_->counters().errors, 1U);
    EXPECT_EQ(cache_->occupied_slots(), 0U);
    expect_slice(acquire({3})[0], 3);
}

TEST_P(ExpertCacheTest, AnExpertThatATokenChoosesTwiceIsUsedOnceByIt) {
    make_cache(2, CachePolicy::Lfu);
    cache_->routed(0, std::vector<uint32_t>{1, 1}, 2); // one token's
    cache_->routed(0, std::vector<uint32_t>{1, 1}, 2);
    cache_->routed(0, std::vector<uint32_t>{2, 2, 2}, 1); // three tokens'
    for (Slot *slot : acquire({1, 2})) {
        settle(slot);
        cache_->release(slot);
    }
    expect_slice(acquire({3})[0], 3);
    EXPECT_TRUE(cache_->holds(std::vector<SliceKey>{{0, 2}})) << "more tokens chose 2";
}

TEST_P(ExpertCacheTest, LaterMissesDoNotOvertakeEarlierOnes) {
    make_cache(2);
    const auto held = acquire({0});
    const auto slots = acquire({1, 2, 3});
    EXPECT_NE(slots[0], nullptr);
    EXPECT_EQ(slots[1], nullptr);
    EXPECT_EQ(slots[2], nullptr);
    expect_slice(held[0], 0);
}

TEST_P(ExpertCacheTest, EvictedAndAskedAgainCountsAsReread) {
    make_cache(1);
    for (uint32_t expert : {0U, 1U, 0U}) {
        Slot *slot = acquire({expert})[0];
        expect_slice(slot, expert);
        cache_->release(slot);
    }
    EXPECT_EQ(cache_->counters().evictions, 2U);
    EXPECT_EQ(cache_->counters().rereads, 1U);
}

TEST_P(ExpertCacheTest, AFailedReadIsReportedOnceAndTriedAgainLater) {
    make_cache(2);
    plan_->add({.nth = 1, .and_after = true, .error_number = EIO});
    Slot *slot = acquire({3})[0];
    ASSERT_EQ(settle(slot), SlotState::Failed);
    EXPECT_NE(slot->error.message.find("expert 3 of bank"), std::string::npos) << slot->error.message;
    cache_->release(slot);
    EXPECT_EQ(cache_->occupied_slots(), 0U);
    plan_->clear();
    expect_slice(acquire({3})[0], 3);
    EXPECT_EQ(cache_->counters().errors, 1U);
}

TEST_P(ExpertCacheTest, PrefetchedSlicesAreHitsLaterAndPinNothing) {
    make_cache(3);
    const std::vector<SliceKey> keys{{0, 4}, {0, 5}, {0, 6}};
    cache_->prefetch(keys);
    EXPECT_EQ(cache_->counters().prefetched, 3U);
    for (uint32_t expert : {4U, 5U, 6U}) {
        Slot *slot = acquire({expert})[0];
        expect_slice(slot, expert);
        cache_->release(slot);
    }
    EXPECT_EQ(cache_->counters().hits, 3U);
    EXPECT_EQ(cache_->counters().misses, 0U);
    expect_slice(acquire({1})[0], 1); // nothing is pinned: there is room
}

TEST_P(ExpertCacheTest, PrefetchTakesNoPinnedSlotAndEvictsNoneOfItsOwn) {
    make_cache(3);
    const auto held = acquire({0});
    Slot *old = acquire({9})[0];
    settle(old);
    cache_->release(old);
    // 9 is resident and asked for too. 1 takes the free slot; 2 finds none, since 9 is as wanted as itself.
    const std::vector<SliceKey> keys{{0, 1}, {0, 2}, {0, 9}};
    cache_->prefetch(keys);
    EXPECT_EQ(cache_->counters().prefetched, 1U);
    EXPECT_EQ(cache_->counters().evictions, 0U);
    expect_slice(acquire({9})[0], 9);
    expect_slice(held[0], 0);
}

TEST_P(ExpertCacheTest, AFailedPrefetchIsForgottenAndTheSliceReadWhenAskedFor) {
    make_cache(2);
    plan_->add({.nth = 1, .and_after = true, .error_number = EIO});
    const std::vector<SliceKey> keys{{0, 3}};
    const uint32_t seen = cache_->arrivals();
    cache_->prefetch(keys);
    cache_->wait_for_arrival(seen);
    while (cache_->occupied_slots() != 0) {
        std::this_thread::yield();
    }
    plan_->clear();
    expect_slice(acquire({3})[0], 3);
}

TEST_P(ExpertCacheTest, DestructionWaitsForReadsInFlight) {
    make_cache(4);
    plan_->add({.nth = 1, .and_after = true, .delay = std::chrono::milliseconds(20)});
    acquire({0, 1, 2, 3});
    cache_.reset();
    EXPECT_EQ(plan_->counts().struck, engine_->counters().reads);
}

INSTANTIATE_TEST_SUITE_P(Access, ExpertCacheTest, testing::Values(Access::Buffered, Access::Direct),
                         test::access_name);

} // namespace
} // namespace sluice::residency
