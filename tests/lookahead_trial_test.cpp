// Which tokens are computed with lookahead, by how long they take.

#include "engine/lookahead_trial.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

/// Adds `count` tokens that take `with` or `without`, as the trial asks; returns how many were with.
size_t run(LookaheadTrial &trial, size_t count, double with, double without) {
    size_t on = 0;
    for (size_t i = 0; i < count; ++i) {
        on += trial.on() ? 1 : 0;
        trial.add(trial.on() ? with : without);
    }
    return on;
}

TEST(LookaheadTrial, HalfOfATrialIsWithout) {
    LookaheadTrial trial;
    EXPECT_FALSE(trial.on());
    EXPECT_FALSE(trial.gain());
    EXPECT_EQ(run(trial, LookaheadTrial::kTrial, 1, 1), LookaheadTrial::kTrial / 2);
    ASSERT_TRUE(trial.gain());
    EXPECT_EQ(*trial.gain(), 0.0);
}

TEST(LookaheadTrial, AGainKeepsItOn) {
    LookaheadTrial trial;
    run(trial, LookaheadTrial::kTrial, 0.9, 1);
    EXPECT_DOUBLE_EQ(*trial.gain(), 1 - 0.9);
    EXPECT_EQ(run(trial, LookaheadTrial::kKept, 0.9, 1), LookaheadTrial::kKept);
}

TEST(LookaheadTrial, NoGainAndALossTurnItOff) {
    for (const double with : {0.995, 1.0, 1.2}) {
        LookaheadTrial trial;
        run(trial, LookaheadTrial::kTrial, with, 1);
        EXPECT_EQ(run(trial, LookaheadTrial::kKept, with, 1), 0U) << with;
    }
}

TEST(LookaheadTrial, ItIsTriedAgain) {
    LookaheadTrial trial;
    run(trial, LookaheadTrial::kTrial + LookaheadTrial::kKept, 1.2, 1);
    run(trial, LookaheadTrial::kTrial, 0.5, 1);
    EXPECT_TRUE(trial.on());
}

TEST(LookaheadTrial, ASteadyDriftIsNoGain) {
    LookaheadTrial trial;
    for (size_t i = 0; i < LookaheadTrial::kTrial; ++i) {
        trial.add(100 - static_cast<double>(i)); // a cache that warms up
    }
    EXPECT_LT(*trial.gain(), LookaheadTrial::kLeastGain);
}

TEST(LookaheadTrial, OneSlowTokenDecidesNothing) {
    LookaheadTrial trial;
    for (size_t i = 0; i < LookaheadTrial::kTrial; ++i) {
        trial.add(i == 1 ? 1000 : trial.on() ? 0.8 : 1.0);
    }
    EXPECT_TRUE(trial.on());
    EXPECT_NEAR(*trial.gain(), 0.2, 1e-9);
}

} // namespace
} // namespace sluice::engine
