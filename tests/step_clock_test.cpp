// What counts as being held up: only the time in which no thread multiplies.

#include "streaming/compute/step_clock.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace sluice::streaming {
namespace {

constexpr auto moment = std::chrono::milliseconds(5);
constexpr uint64_t moment_nanoseconds = 5'000'000;

/// Two threads of one step, played by one.
class TwoThreads : public testing::Test {
protected:
    static void wait_a_moment() { std::this_thread::sleep_for(moment); }

    StepClock clock_;
    std::atomic<uint64_t> waited_{0};
    std::atomic<uint64_t> managed_{0};
    StepThread first_{clock_, 2, waited_, managed_};
    StepThread second_{clock_, 2, waited_, managed_};
};

TEST_F(TwoThreads, NothingCountsWhileOneMultiplies) {
    first_.now(Doing::Waiting);
    wait_a_moment();
    first_.now(Doing::Managing);
    wait_a_moment();
    first_.now(Doing::Multiplying);
    EXPECT_EQ(waited_, 0U);
    EXPECT_EQ(managed_, 0U);
}

TEST_F(TwoThreads, WaitingCountsFromTheLastThatBeginsToTheFirstThatGoesOn) {
    first_.now(Doing::Waiting);
    wait_a_moment();
    const auto start = Clock::now();
    second_.now(Doing::Waiting);
    wait_a_moment();
    first_.now(Doing::Multiplying);
    const uint64_t most = nanoseconds_since(start);
    wait_a_moment();
    second_.now(Doing::Multiplying);
    EXPECT_GE(waited_, moment_nanoseconds);
    EXPECT_LE(waited_, most);
    EXPECT_EQ(managed_, 0U);
}

TEST_F(TwoThreads, OneThatManagesWhileTheOtherWaitsIsManaging) {
    first_.now(Doing::Waiting);
    second_.now(Doing::Managing);
    wait_a_moment();
    const uint64_t waited_before = waited_;
    second_.now(Doing::Multiplying);
    EXPECT_GE(managed_, moment_nanoseconds);
    EXPECT_EQ(waited_, waited_before);
}

TEST_F(TwoThreads, OneThatHasLeftDoesNotMultiply) {
    first_.leave(true);
    second_.now(Doing::Managing);
    wait_a_moment();
    second_.now(Doing::Multiplying);
    EXPECT_GE(managed_, moment_nanoseconds);
}

TEST_F(TwoThreads, NothingCountsOnceBothHaveLeft) {
    first_.now(Doing::Waiting);
    second_.now(Doing::Waiting);
    first_.leave(true);
    second_.leave(true);
    const uint64_t waited_before = waited_;
    wait_a_moment();
    StepThread late{clock_, 2, waited_, managed_};
    late.now(Doing::Waiting);
    EXPECT_EQ(waited_, waited_before);
}

TEST_F(TwoThreads, ResetBeginsWithBothMultiplying) {
    first_.now(Doing::Waiting);
    second_.now(Doing::Waiting);
    clock_.reset();
    const uint64_t waited_before = waited_;
    wait_a_moment();
    StepThread again{clock_, 2, waited_, managed_};
    again.now(Doing::Waiting);
    wait_a_moment();
    again.now(Doing::Multiplying);
    EXPECT_EQ(waited_, waited_before);
}

TEST(OneThread, EveryWaitOfItCounts) {
    StepClock clock;
    std::atomic<uint64_t> waited{0};
    std::atomic<uint64_t> managed{0};
    StepThread thread(clock, 1, waited, managed);
    thread.now(Doing::Waiting);
    std::this_thread::sleep_for(moment);
    thread.now(Doing::Multiplying);
    EXPECT_GE(waited, moment_nanoseconds);
}

} // namespace
} // namespace sluice::streaming
