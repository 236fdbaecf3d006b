// How the expert cache answers when memory gets short while a run goes on, on machines that are only
// imagined.

#include "residency/memory_limits.h"
#include "residency/pressure.h"
#include "support/expert_cache_fixture.h"

#include <gtest/gtest.h>
#include <thread>

namespace sluice::residency {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20U;
constexpr uint64_t kGiB = uint64_t{1} << 30U;

// -- the decision
// -------------------------------------------------------------------------------------------------

TEST(NextCacheLimit, NothingKnownChangesNothing) {
    EXPECT_EQ(next_cache_limit(700 * kMiB, kGiB, {}), 700 * kMiB);
}

TEST(NextCacheLimit, ShortOfMemoryGivesUpWhatIsLacking) {
    // A 64th of 16 GiB is 256 MiB.
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, {.available = 100 * kMiB, .total = 16 * kGiB}), kGiB - 156 * kMiB);
}

TEST(NextCacheLimit, SmallMachinesKeep128MiBFree) {
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, {.available = 100 * kMiB, .total = 4 * kGiB}), kGiB - 28 * kMiB);
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, {.available = 100 * kMiB}), kGiB - 28 * kMiB) << "total unknown";
}

TEST(NextCacheLimit, NeverBelowNothing) {
    EXPECT_EQ(next_cache_limit(20 * kMiB, kGiB, {.available = 0, .total = 16 * kGiB}), 0U);
}

TEST(NextCacheLimit, BetweenShortAndEnoughItStays) {
    for (const uint64_t available : {128 * kMiB, 200 * kMiB, 256 * kMiB}) {
        EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, {.available = available, .total = 8 * kGiB}),
                  600 * kMiB);
    }
}

TEST(NextCacheLimit, EnoughMemoryTakesBackOnlyWhatIsToSpare) {
    EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, {.available = 300 * kMiB, .total = 8 * kGiB}), 644 * kMiB);
    EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, {.available = 5 * kGiB, .total = 8 * kGiB}), kGiB)
        << "never more than the arena";
}

/// A machine with memory enough and these groups.
PressureFacts in_groups(std::vector<GroupPressure> groups) {
    return {.available = 9 * kGiB, .total = 16 * kGiB, .groups = std::move(groups)};
}

TEST(NextCacheLimit, LoweredGroupLimitTakesTheDifferenceAway) {
    const PressureFacts facts = in_groups({{.limit = 2500 * kMiB, .limit_at_start = 3000 * kMiB}});
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, facts), kGiB - 500 * kMiB);
    EXPECT_EQ(next_cache_limit(200 * kMiB, kGiB, facts), kGiB - 500 * kMiB) << "and the rest may be used";
}

TEST(NextCacheLimit, LoweredLimitOfAGroupWithRoomTakesOnlyWhatTheRunWasToUse) {
    // 5 GiB were left for an arena of 1 GiB and a floor of 320 MiB: 3.7 GiB were nobody's.
    GroupPressure group{.limit = 4 * kGiB, .limit_at_start = 6 * kGiB, .left_at_start = 5 * kGiB};
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, in_groups({group})), kGiB);
    group.limit = 2 * kGiB;
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, in_groups({group})), kGiB - 320 * kMiB);
}

TEST(NextCacheLimit, EachGroupIsComparedWithItselfAtTheStart) {
    const PressureFacts facts = in_groups(
        {{.limit = 2 * kGiB, .limit_at_start = 2 * kGiB}, {.limit = 9 * kGiB, .limit_at_start = 9 * kGiB}});
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, facts), kGiB);
}

TEST(NextCacheLimit, RaisedGroupLimitGivesNothingThatWasNotPlanned) {
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, {.groups = {{.limit = 4 * kGiB, .limit_at_start = 2 * kGiB}}}),
              kGiB);
}

TEST(NextCacheLimit, RunThatFillsItsGroupAloneKeepsItsCache) {
    EXPECT_EQ(
        next_cache_limit(
            kGiB, kGiB,
            in_groups({{.limit = 2 * kGiB, .limit_at_start = 2 * kGiB, .left = 3 * kMiB, .others_grew = 0}})),
        kGiB);
}

TEST(NextCacheLimit, OthersInTheGroupAreGivenRoom) {
    GroupPressure group{
        .limit = 2 * kGiB, .limit_at_start = 2 * kGiB, .left = 56 * kMiB, .others_grew = 500 * kMiB};
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, in_groups({group})), kGiB - 72 * kMiB)
        << "so that 128 MiB are free";
    group.others_grew = 80 * kMiB;
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, in_groups({group})), kGiB - 24 * kMiB) << "no more than they took";
    group.others_grew = 0;
    group.left = 600 * kMiB;
    EXPECT_EQ(next_cache_limit(500 * kMiB, kGiB, in_groups({group})), kGiB) << "they are gone again";
}

TEST(NextCacheLimit, OfASmallGroupAnEighthIsRoomEnough) {
    const GroupPressure group{
        .limit = 200 * kMiB, .limit_at_start = 200 * kMiB, .left = 15 * kMiB, .others_grew = 90 * kMiB};
    EXPECT_EQ(next_cache_limit(60 * kMiB, 60 * kMiB, in_groups({group})), 50 * kMiB);
}

TEST(NextCacheLimit, LimitThatWasSetLaterMakesRoomWhoeverFillsTheGroup) {
    const GroupPressure group{.limit = 2 * kGiB, .left = 100 * kMiB};
    EXPECT_EQ(next_cache_limit(kGiB, kGiB, in_groups({group})), kGiB - 28 * kMiB);
}

TEST(NextCacheLimit, TheTightestOfMachineAndGroupsDecides) {
    PressureFacts facts{
        .available = 300 * kMiB, .total = 8 * kGiB, .groups = {{.limit = 8 * kGiB, .left = 5 * kGiB}}};
    EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, facts), 644 * kMiB);
    const GroupPressure roomy{.limit = 8 * kGiB, .limit_at_start = 8 * kGiB, .left = 5 * kGiB};
    GroupPressure full = roomy;
    full.left = 300 * kMiB;
    full.others_grew = kGiB;
    EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, in_groups({full, roomy})), 644 * kMiB);
    EXPECT_EQ(next_cache_limit(600 * kMiB, kGiB, in_groups({roomy, full})), 644 * kMiB);
}

// -- the watch, on a real cache
// --------------------------------------------------------------------------------------------

constexpr size_t kSlots = 8;

class Pressure : public test::ExpertCacheFixture {
protected:
    Pressure() : ExpertCacheFixture(size_t{80} << 10U) {}

    void start(std::chrono::milliseconds pause = std::chrono::milliseconds(0), uint32_t full = kSlots) {
        make_cache(kSlots);
        for (uint32_t expert = 0; expert < full; ++expert) {
            residency::Slot *slot = acquire({expert})[0];
            expect_slice(slot, expert);
            cache_->release(slot);
        }
        watch_ = std::make_unique<PressureWatch>(
            [this] {
                ++looks_;
                return now_;
            },
            pause);
    }

    size_t slots_after_a_look() {
        watch_->adjust(*cache_);
        return cache_->limit() / stride_;
    }

    MemoryMoment now_{.system = {.total = 4 * kGiB, .available = 2 * kGiB}, .process = {}};
    int looks_ = 0;
    std::unique_ptr<PressureWatch> watch_;
};

TEST_P(Pressure, ShrinksTheCacheAndGrowsItBack) {
    start();
    EXPECT_EQ(slots_after_a_look(), kSlots);
    now_.system.available = 128 * kMiB - 3 * stride_;
    testing::internal::CaptureStderr();
    EXPECT_EQ(slots_after_a_look(), kSlots - 3);
    EXPECT_EQ(cache_->counters().evictions, 3U);
    EXPECT_EQ(slots_after_a_look(), kSlots - 6) << "as long as memory is short";
    EXPECT_EQ(slots_after_a_look(), 1U) << "what one layer needs for one token stays";
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("short of memory (128 MiB available)"), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), said.size() - 1) << "said once: " << said;

    now_.system.available = 200 * kMiB;
    EXPECT_EQ(slots_after_a_look(), 1U);
    now_.system.available = 256 * kMiB + 4 * stride_;
    EXPECT_EQ(slots_after_a_look(), 5U);
    now_.system.available = 2 * kGiB;
    EXPECT_EQ(slots_after_a_look(), kSlots);
}

TEST_P(Pressure, TakesWhatIsLackingFromWhatIsHeldWhileTheCacheFills) {
    start(std::chrono::milliseconds(0), 4);
    now_.system.available = 128 * kMiB - 2 * stride_;
    EXPECT_EQ(slots_after_a_look(), 2U);
    EXPECT_EQ(cache_->held_bytes(), 2 * stride_)
        << "given back at the first look, though four slots were empty";
    now_.system.available = 200 * kMiB;
    EXPECT_EQ(slots_after_a_look(), 2U) << "and it does not fill up again meanwhile";
}

TEST_P(Pressure, FollowsALimitThatIsLoweredAndRaisedAgain) {
    now_.system.groups = {{.directory = "own", .limit = kGiB}};
    start();
    now_.system.groups[0].limit = kGiB - 5 * stride_;
    EXPECT_EQ(slots_after_a_look(), 3U);
    now_.system.groups[0].limit = kGiB;
    EXPECT_EQ(slots_after_a_look(), kSlots);
}

TEST_P(Pressure, GroupThatBecomesTheTightestIsNotTakenForALowerLimit) {
    // At the start the outer group is almost full; then others leave it, and the inner one leaves less.
    now_.system.groups = {{.directory = "inner", .limit = kGiB, .usage = 500 * kMiB},
                          {.directory = "outer", .limit = 8 * kGiB, .usage = 8 * kGiB - 500 * kMiB}};
    now_.process.anonymous = 250 * kMiB;
    start();
    now_.system.groups[1].usage = kGiB;
    EXPECT_EQ(slots_after_a_look(), kSlots);
}

TEST_P(Pressure, OthersThatFillAnOuterGroupAreGivenRoom) {
    now_.system.groups = {{.directory = "inner", .limit = kGiB, .usage = 500 * kMiB},
                          {.directory = "outer", .limit = 8 * kGiB, .usage = kGiB}};
    now_.process.anonymous = 250 * kMiB;
    start();
    now_.system.groups[1].usage = 8 * kGiB - 100 * kMiB;
    EXPECT_EQ(slots_after_a_look(), 1U);
}

TEST_P(Pressure, TellsOthersInItsGroupFromItself) {
    now_.system.groups = {{.directory = "own", .limit = kGiB, .usage = 300 * kMiB}};
    now_.process.anonymous = 250 * kMiB;
    start();
    now_.system.groups[0].usage = kGiB - kMiB;
    now_.process.anonymous = kGiB - 53 * kMiB;
    EXPECT_EQ(slots_after_a_look(), kSlots) << "it is this process that grew, as planned";
    now_.process.anonymous = 250 * kMiB;
    EXPECT_EQ(slots_after_a_look(), 1U);
    now_.system.groups[0].usage = 300 * kMiB;
    EXPECT_EQ(slots_after_a_look(), kSlots);
}

TEST_P(Pressure, NothingMeasuredChangesNothing) {
    start();
    now_ = {};
    EXPECT_EQ(slots_after_a_look(), kSlots);
}

TEST_P(Pressure, LooksNoOftenerThanAskedTo) {
    start(std::chrono::hours(1));
    now_.system.available = 0;
    for (int token = 0; token < 100; ++token) {
        EXPECT_EQ(slots_after_a_look(), kSlots);
    }
    EXPECT_EQ(looks_, 1) << "the one when it was made";
}

INSTANTIATE_TEST_SUITE_P(Access, Pressure, testing::Values(platform::Access::Buffered), test::access_name);

} // namespace
} // namespace sluice::residency
