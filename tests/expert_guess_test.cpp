// What the expert cache reads before anybody asks: when, in which order, and at whose expense.

#include "residency/expert_cache.h"
#include "support/fault_file.h"
#include "support/held_read_engine.h"
#include "support/temp_file.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <initializer_list>
#include <vector>

namespace sluice::residency {
namespace {

using platform::Access;

constexpr size_t kSlice = 4096;
constexpr uint32_t kExperts = 32;

class ExpertGuessTest : public testing::Test {
protected:
    void TearDown() override { engine_.finish_all(); }

    void make_cache(size_t slots) {
        auto made = ExpertCache::create({{.name = "bank",
                                          .file = file_.get(),
                                          .offset = 0,
                                          .slice_bytes = kSlice,
                                          .expert_count = kExperts}},
                                        {.capacity_bytes = slots * kSlice,
                                         .access = Access::Buffered,
                                         .layers = {{{0}, 1}},
                                         .policy = CachePolicy::Lru},
                                        engine_);
        ASSERT_TRUE(made) << made.error().message;
        cache_ = std::move(*made);
        ASSERT_EQ(cache_->plan().classes.at(0).slots, slots);
    }

    static std::vector<SliceKey> keys(std::initializer_list<uint32_t> experts) {
        std::vector<SliceKey> keys;
        for (const uint32_t expert : experts) {
            keys.push_back({0, expert});
        }
        return keys;
    }

    void guess(Guess kind, std::initializer_list<uint32_t> experts) { cache_->guess(kind, keys(experts)); }

    std::vector<Slot *> acquire(std::initializer_list<uint32_t> experts) {
        std::vector<Slot *> slots(experts.size());
        cache_->acquire(keys(experts), slots);
        return slots;
    }

    /// Experts being read, in the order in which they were asked of storage.
    std::vector<uint32_t> reading() const {
        std::vector<uint32_t> experts;
        for (size_t i = 0; i < engine_.held(); ++i) {
            experts.push_back(static_cast<uint32_t>(engine_.offset(i) / kSlice));
        }
        return experts;
    }

    /// Makes these resident, asked for once in this order.
    void fill(std::initializer_list<uint32_t> experts) {
        for (const uint32_t expert : experts) {
            Slot *slot = acquire({expert})[0];
            engine_.finish_all();
            cache_->release(slot);
        }
    }

    GuessCounters counters(Guess kind) const {
        return cache_->counters().guesses.at(static_cast<size_t>(kind));
    }

    using Experts = std::vector<uint32_t>;
    test::ScratchDir dir_;
    std::shared_ptr<platform::FaultPlan> plan_ = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files_{plan_};
    std::unique_ptr<platform::IFile> file_ =
        std::move(*files_.open(dir_.write_pattern("experts", kSlice *kExperts), false));
    test::HeldReadEngine engine_;
    std::unique_ptr<ExpertCache> cache_;
};

TEST_F(ExpertGuessTest, AFewAreReadAtOnceAndTheRestAsTheyArrive) {
    make_cache(8);
    guess(Guess::NextLayer, {3, 1, 4, 15, 9, 2});
    EXPECT_EQ(reading(), (Experts{3, 1, 4, 15}));
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{1, 4, 15, 9}));
    engine_.finish_all();
    EXPECT_EQ(counters(Guess::NextLayer).reads, 6U);
    EXPECT_EQ(counters(Guess::NextLayer).bytes, 6U * kSlice);
    EXPECT_EQ(cache_->counters().prefetched, 6U);
    EXPECT_EQ(cache_->counters().misses, 0U);
}

TEST_F(ExpertGuessTest, NothingIsGuessedWhileSomebodyWaitsForARead) {
    make_cache(8);
    acquire({7});
    guess(Guess::NextLayer, {1, 2});
    EXPECT_EQ(reading(), (Experts{7}));
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{1, 2}));
}

TEST_F(ExpertGuessTest, AReadAskedForGoesAheadOfGuessesNotYetStarted) {
    make_cache(16);
    guess(Guess::NextLayer, {1, 2, 3, 4, 5, 6});
    acquire({20});
    EXPECT_EQ(reading(), (Experts{1, 2, 3, 4, 20}));
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{2, 3, 4, 20})) << "5 has to wait for 20";
}

TEST_F(ExpertGuessTest, AGuessAskedForOnItsWayIsAHitThatIsWaitedFor) {
    make_cache(16);
    guess(Guess::NextLayer, {1, 2, 3, 4, 5});
    Slot *slot = acquire({4})[0];
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(cache_->counters().hits, 1U);
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{2, 3, 4})) << "somebody waits for 4: no more guesses";
    engine_.finish_all();
    EXPECT_EQ(counters(Guess::NextLayer).used, 1U);
    EXPECT_EQ(counters(Guess::NextLayer).late, 1U);
    EXPECT_EQ(test::first_wrong({slot->data, kSlice}, 4 * kSlice), kSlice);
}

TEST_F(ExpertGuessTest, AGuessCountsAsUsedOnce) {
    make_cache(4);
    guess(Guess::NextLayer, {1, 2});
    engine_.finish_all();
    cache_->release(acquire({1})[0]);
    cache_->release(acquire({1})[0]);
    EXPECT_EQ(counters(Guess::NextLayer).used, 1U);
    EXPECT_EQ(counters(Guess::NextLayer).late, 0U);
}

TEST_F(ExpertGuessTest, NewGuessesReplaceThoseNotYetStarted) {
    make_cache(16);
    guess(Guess::NextLayer, {1, 2, 3, 4, 5, 6});
    guess(Guess::NextLayer, {11});
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{2, 3, 4, 11}));
    EXPECT_EQ(counters(Guess::NextLayer).stale, 2U);
}

TEST_F(ExpertGuessTest, TheDecisionEndsGuessesAboutIt) {
    make_cache(16);
    guess(Guess::NextLayer, {1, 2, 3, 4, 5, 6});
    const std::vector<uint32_t> chosen{9};
    cache_->routed(0, chosen, 1);
    engine_.finish_all();
    EXPECT_EQ(counters(Guess::NextLayer).reads, 4U);
    EXPECT_EQ(counters(Guess::NextLayer).stale, 2U);
}

TEST_F(ExpertGuessTest, TheNextLayerTakesThePlaceOfOthersButNotOfWhatItExpects) {
    make_cache(2);
    fill({1, 2}); // 1 is the one to go
    guess(Guess::NextLayer, {3, 1, 4});
    engine_.finish_all();
    const std::vector<Slot *> slots = acquire({1, 3});
    EXPECT_NE(slots[0], nullptr);
    EXPECT_NE(slots[1], nullptr);
    EXPECT_EQ(cache_->counters().misses, 2U) << "1 and 2, while filling; 4 found no place";
}

TEST_F(ExpertGuessTest, AWarmStartOnlyFillsWhatIsEmpty) {
    make_cache(3);
    fill({1, 2});
    guess(Guess::WarmStart, {5, 6, 7});
    engine_.finish_all();
    EXPECT_EQ(cache_->counters().evictions, 0U);
    EXPECT_EQ(counters(Guess::WarmStart).reads, 1U);
    EXPECT_EQ(cache_->occupied_slots(), 3U);
}

TEST_F(ExpertGuessTest, TheNextLayerComesBeforeAWarmStart) {
    make_cache(16);
    guess(Guess::WarmStart, {1, 2, 3, 4, 5, 6});
    guess(Guess::NextLayer, {20, 21});
    engine_.finish_one();
    engine_.finish_one();
    EXPECT_EQ(reading(), (Experts{3, 4, 20, 21}));
    engine_.finish_all();
    EXPECT_EQ(counters(Guess::WarmStart).reads, 6U);
    EXPECT_EQ(counters(Guess::WarmStart).stale, 0U);
}

TEST_F(ExpertGuessTest, AGuessThatCannotBeReadIsForgotten) {
    make_cache(4);
    plan_->add({.nth = 1, .error_number = EIO});
    guess(Guess::NextLayer, {1, 2});
    engine_.finish_all();
    EXPECT_EQ(cache_->occupied_slots(), 1U);
    EXPECT_EQ(cache_->counters().errors, 1U);
    Slot *slot = acquire({1})[0];
    engine_.finish_all();
    EXPECT_EQ(slot->state.load(), SlotState::Ready);
}

TEST_F(ExpertGuessTest, GuessesOfWhatIsThereReadNothing) {
    make_cache(4);
    fill({1, 2});
    guess(Guess::NextLayer, {1, 2});
    EXPECT_EQ(engine_.held(), 0U);
    EXPECT_EQ(counters(Guess::NextLayer).reads, 0U);
}

TEST_F(ExpertGuessTest, ResidentsAreListedByHowOftenTheyWereAskedFor) {
    make_cache(4);
    fill({1, 2, 2, 3, 2, 3});
    EXPECT_EQ(cache_->residents(), keys({2, 3, 1}));
}

} // namespace
} // namespace sluice::residency
