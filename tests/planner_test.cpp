// Which mode and how large a cache, on machines that are only imagined.

#include "session/planner.h"

#include <gtest/gtest.h>

namespace sluice::session {

using residency::auto_cache_bytes;
using residency::CacheFacts;
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ChooseMode, StreamsWhatDoesNotFit) {
    const ModeChoice phone = choose_mode(
        StreamMode::Auto, {.file_bytes = 18 * kGiB, .has_experts = true, .usable_memory = 6 * kGiB});
    EXPECT_TRUE(phone.stream);
    EXPECT_NE(phone.reason.find("18.0 GiB of weights, 6.0 GiB of usable memory"), std::string::npos)
        << phone.reason;
}

TEST(ChooseMode, HoldsWhatFits) {
    EXPECT_FALSE(choose_mode(StreamMode::Auto,
                             {.file_bytes = 3 * kGiB, .has_experts = true, .usable_memory = 12 * kGiB})
                     .stream);
}

TEST(ChooseMode, LeavesRoomForContextAndSystem) {
    EXPECT_TRUE(
        choose_mode(StreamMode::Auto,
                    {.file_bytes = 7 * kGiB, .has_experts = true, .usable_memory = 7 * kGiB + 100 * kMiB})
            .stream);
}

TEST(ChooseMode, DenseModelsAreResident) {
    const ModeChoice choice = choose_mode(
        StreamMode::Auto, {.file_bytes = 40 * kGiB, .has_experts = false, .usable_memory = 6 * kGiB});
    EXPECT_FALSE(choice.stream);
    EXPECT_EQ(choice.reason, "the model has no routed experts");
}

TEST(ChooseMode, UnknownMemoryStreams) {
    const ModeChoice choice =
        choose_mode(StreamMode::Auto, {.file_bytes = kGiB, .has_experts = true, .usable_memory = {}});
    EXPECT_TRUE(choice.stream);
    EXPECT_NE(choice.reason.find("could not be measured"), std::string::npos);
}

TEST(ChooseMode, FlagsDecideAgainstAllFacts) {
    EXPECT_TRUE(
        choose_mode(StreamMode::Force, {.file_bytes = 1, .has_experts = false, .usable_memory = 16 * kGiB})
            .stream);
    EXPECT_FALSE(
        choose_mode(StreamMode::Never, {.file_bytes = 90 * kGiB, .has_experts = true, .usable_memory = kGiB})
            .stream);
}

TEST(AutoCache, TakesWhatIsLeftAfterComputeAndFloor) {
    const uint64_t bytes = auto_cache_bytes({.usable_memory = 8 * kGiB,
                                             .compute_bytes = 300 * kMiB,
                                             .minimum_bytes = 20 * kMiB,
                                             .useful_bytes = 60 * kGiB,
                                             .working_set_bytes = kGiB});
    EXPECT_EQ(bytes, 8 * kGiB - 300 * kMiB - 512 * kMiB);
}

TEST(AutoCache, LeavesRoomForWeightsThatAreOnlyMapped) {
    const CacheFacts facts{.usable_memory = 8 * kGiB, .mapped_bytes = kGiB, .useful_bytes = 60 * kGiB};
    EXPECT_EQ(auto_cache_bytes(facts), 7 * kGiB - 512 * kMiB);
}

TEST(AutoCache, NeverMoreThanEverySlice) {
    EXPECT_EQ(auto_cache_bytes({.usable_memory = 64 * kGiB, .minimum_bytes = kMiB, .useful_bytes = 5 * kGiB}),
              5 * kGiB);
}

TEST(AutoCache, NeverLessThanOneLayer) {
    EXPECT_EQ(auto_cache_bytes({.usable_memory = 100 * kMiB,
                                .compute_bytes = 300 * kMiB,
                                .minimum_bytes = 20 * kMiB,
                                .useful_bytes = 5 * kGiB}),
              20 * kMiB);
}

TEST(AutoCache, UnknownMemoryGivesFourWorkingSets) {
    EXPECT_EQ(auto_cache_bytes({.usable_memory = {},
                                .minimum_bytes = kMiB,
                                .useful_bytes = 50 * kGiB,
                                .working_set_bytes = 500 * kMiB}),
              2000 * kMiB);
}

TEST(SystemFloor, IsASixteenthAndAtLeast256MiB) {
    EXPECT_EQ(system_floor(16 * kGiB), kGiB);
    EXPECT_EQ(system_floor(kGiB), 256 * kMiB);
}

TEST(SystemFloor, InAGroupIsNoMoreThanAShareOfIt) {
    EXPECT_EQ(system_floor(199 * kMiB, 200 * kMiB), 200 * kMiB / 16);
    EXPECT_EQ(system_floor(100 * kMiB, 16 * kGiB), 256 * kMiB) << "a large group that is almost full";
    EXPECT_EQ(system_floor(16 * kGiB, 17 * kGiB), kGiB);
}

TEST(BoundingGroup, IsTheOneThatAllowsLessThanTheMachine) {
    using platform::GroupMemory;
    const GroupMemory small{.limit = 200 * kMiB, .usage = kMiB};
    EXPECT_EQ(bounding_group_limit({.available = kGiB}), std::nullopt);
    EXPECT_EQ(bounding_group_limit({.groups = {small}}), 200 * kMiB);
    EXPECT_EQ(bounding_group_limit({.available = kGiB, .groups = {small}}), 200 * kMiB);
    EXPECT_EQ(bounding_group_limit({.available = kGiB, .groups = {{.limit = 2 * kGiB}}}), std::nullopt);
    EXPECT_EQ(bounding_group_limit({.available = 300 * kMiB, .groups = {small}}), std::nullopt)
        << "the machine has 44 MiB to give, the group 186";
    const GroupMemory full{.limit = 8 * kGiB, .usage = 8 * kGiB - 300 * kMiB};
    EXPECT_EQ(bounding_group_limit({.available = kGiB, .groups = {small, full}}), 8 * kGiB)
        << "an outer group that is almost full";
}

TEST(AutoCache, InASmallGroupLeavesAShareOfTheGroup) {
    EXPECT_EQ(
        auto_cache_bytes({.usable_memory = 160 * kMiB, .group_limit = 160 * kMiB, .useful_bytes = 60 * kGiB}),
        150 * kMiB);
}

} // namespace
} // namespace sluice::session
