// What a run settles on, by scripted times of tokens.

#include "streaming/runtime/run_controller.h"

#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace sluice::streaming {
namespace {

using testing::HasSubstr;

/// Times of tokens around a mean with a spread, as a machine gives them: now and then one takes far longer.
class Noise {
public:
    Noise(double spread, uint32_t seed) : spread_(spread), random_(seed) {}
    double operator()(double mean) {
        const double outlier = uniform_(random_) < 0.02 ? 3.0 : 1.0;
        return mean * outlier * std::exp(spread_ * normal_(random_));
    }

private:
    double spread_;
    std::mt19937 random_;
    std::normal_distribution<double> normal_;
    std::uniform_real_distribution<double> uniform_;
};

/// One trial to its end; `tokens` says how many it took.
Verdict run_trial(double without, double with, Noise noise, size_t *tokens = nullptr) {
    PairedTrial trial;
    Verdict verdict = Verdict::Undecided;
    size_t count = 0;
    while (verdict == Verdict::Undecided) {
        verdict = trial.add(noise(trial.with_change() ? with : without));
        ++count;
    }
    if (tokens != nullptr) {
        *tokens = count;
    }
    return verdict;
}

TEST(PairedTrial, TokensGoInFoursWithoutWithWithWithout) {
    PairedTrial trial;
    std::vector<bool> with;
    for (int i = 0; i < 8; ++i) {
        with.push_back(trial.with_change());
        trial.add(1);
    }
    EXPECT_THAT(with, testing::ElementsAre(false, true, true, false, false, true, true, false));
}

TEST(PairedTrial, NoiseAloneIsNoGain) {
    for (const double spread : {0.01, 0.1, 0.3}) {
        for (uint32_t seed = 0; seed < 2000; ++seed) {
            EXPECT_EQ(run_trial(1, 1, Noise(spread, seed)), Verdict::NotBetter) << spread << " " << seed;
        }
    }
}

TEST(PairedTrial, ATrueGainOfTenPercentIsFoundAtASpreadOfTenPercent) {
    size_t found = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
        found += run_trial(1, 0.9, Noise(0.1, seed)) == Verdict::Better ? 1 : 0;
    }
    EXPECT_GT(found, 140U); // the others are found when all is tried again
}

TEST(PairedTrial, ATrueGainOfTenPercentIsFoundAtASpreadOfFivePercent) {
    size_t found = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
        found += run_trial(1, 0.9, Noise(0.05, seed)) == Verdict::Better ? 1 : 0;
    }
    EXPECT_GT(found, 190U); // a first token that took three times as long ends a trial
}

TEST(PairedTrial, WhatTakesTwiceAsLongIsDroppedAfterOneToken) {
    size_t tokens = 0;
    EXPECT_EQ(run_trial(1, 2, Noise(0.05, 1), &tokens), Verdict::NotBetter);
    EXPECT_EQ(tokens, 2U);
}

TEST(PairedTrial, WhatTakesAThirdLongerIsDroppedAfterOneFour) {
    size_t tokens = 0;
    EXPECT_EQ(run_trial(1, 1.33, Noise(0.02, 1), &tokens), Verdict::NotBetter);
    EXPECT_EQ(tokens, 4U);
}

TEST(PairedTrial, HalfTheTimeIsSureAfterTheLeastFours) {
    size_t tokens = 0;
    EXPECT_EQ(run_trial(1, 0.5, Noise(0.05, 2), &tokens), Verdict::Better);
    EXPECT_EQ(tokens, 4 * PairedTrial::kLeastFours);
}

TEST(PairedTrial, HalfTheTimeIsSureAfterTwoFoursWhereTheSpreadIsKnown) {
    PairedTrial trial(0.05);
    Noise noise(0.05, 2);
    size_t tokens = 0;
    Verdict verdict = Verdict::Undecided;
    for (; verdict == Verdict::Undecided; ++tokens) {
        verdict = trial.add(noise(trial.with_change() ? 0.5 : 1));
    }
    EXPECT_EQ(verdict, Verdict::Better);
    EXPECT_EQ(tokens, 4 * PairedTrial::kFoursOfLargeGain);
    EXPECT_NEAR(trial.gain().value_or(0), 0.5, 0.1);
}

TEST(PairedTrial, ASteadyDriftIsNoGain) {
    PairedTrial trial;
    Verdict verdict = Verdict::Undecided;
    for (double seconds = 2; verdict == Verdict::Undecided; seconds *= 0.99) {
        verdict = trial.add(seconds);
    }
    EXPECT_EQ(verdict, Verdict::NotBetter);
}

TEST(PairedTrial, AGainThatWouldNotShowIsNone) {
    EXPECT_EQ(run_trial(1, 0.985, Noise(0.001, 3)), Verdict::NotBetter);
}

/// A machine whose tokens take what `seconds` says of a setting.
using Machine = std::function<double(std::span<const size_t>)>;

void run(RunController &controller, size_t tokens, const Machine &seconds, Noise &noise, bool reads = true) {
    for (size_t i = 0; i < tokens; ++i) {
        controller.add(noise(seconds(controller.setting())), reads);
    }
}

std::vector<Knob> two_knobs() {
    return {{.name = "threads", .choices = {"2", "1"}},
            {.name = "reading", .choices = {"ring", "8 threads", "4 threads"}, .needs_reads = true}};
}

TEST(RunController, BeginsAsTheKnobsSay) {
    const RunController controller({{.name = "lookahead", .choices = {"off", "on"}, .start = 1}});
    EXPECT_THAT(controller.setting(), testing::ElementsAre(1));
    EXPECT_EQ(controller.outcome().front().choice, "on");
    EXPECT_EQ(controller.outcome().front().why, "others unmeasured");
}

TEST(RunController, TriesNothingWhileCachesFill) {
    RunController controller(two_knobs());
    Noise noise(0.05, 1);
    run(
        controller, RunController::kWarmUp, [](auto) { return 1.0; }, noise);
    EXPECT_EQ(controller.tokens_tried(), 0U);
}

TEST(RunController, NoiseAloneNeverMovesIt) {
    for (uint32_t seed = 0; seed < 50; ++seed) {
        RunController controller(two_knobs());
        Noise noise(0.1, seed);
        run(
            controller, 4000, [](auto) { return 1.0; }, noise);
        EXPECT_THAT(controller.settled(), testing::ElementsAre(0, 0)) << seed;
        EXPECT_EQ(controller.changes_noticed(), 0U) << seed;
    }
}

TEST(RunController, ATrueDifferenceOfTenPercentDoes) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        RunController controller(two_knobs());
        Noise noise(0.1, seed);
        run(
            controller, 3000, [](std::span<const size_t> setting) { return setting[1] == 1 ? 0.9 : 1.0; },
            noise);
        EXPECT_THAT(controller.settled(), testing::ElementsAre(0, 1)) << seed;
    }
}

TEST(RunController, OtherConditionsBringItBack) {
    RunController controller(two_knobs());
    Noise noise(0.05, 1);
    const auto alone = [](std::span<const size_t> setting) { return setting[0] == 0 ? 1.0 : 1.4; };
    const auto busy = [](std::span<const size_t> setting) { return setting[0] == 0 ? 3.0 : 2.2; };
    run(controller, 400, alone, noise);
    EXPECT_EQ(controller.settled()[0], 0U);
    run(controller, 150, busy, noise); // far less than the rest that is left
    EXPECT_EQ(controller.settled()[0], 1U);
    run(controller, 150, alone, noise);
    EXPECT_EQ(controller.settled()[0], 0U);
    EXPECT_EQ(controller.changes_noticed(), 2U);
}

TEST(RunController, ReadingIsNotTriedWhereNothingIsRead) {
    RunController controller(two_knobs());
    Noise noise(0.05, 1);
    run(
        controller, 600, [](std::span<const size_t> setting) { return setting[1] == 0 ? 1.0 : 0.5; }, noise,
        false);
    EXPECT_EQ(controller.settled()[1], 0U);
}

TEST(RunController, LeavesARunAloneForLongerEachTimeThatNothingChanged) {
    RunController controller({{.name = "threads", .choices = {"2", "1"}}});
    Noise noise(0.02, 1);
    const auto twice = [](std::span<const size_t> setting) { return setting[0] == 0 ? 1.0 : 2.0; };
    run(controller, 10000, twice, noise);
    EXPECT_LE(controller.tokens_tried(), 4U * 6); // after 8, 256, 512, 1024, 2048 and 4096 tokens
}

TEST(RunController, SaysWhatItFoundOfTheOthers) {
    RunController controller(two_knobs());
    Noise noise(0.02, 1);
    run(
        controller, 300,
        [](std::span<const size_t> setting) {
            return (setting[0] == 0 ? 1.0 : 1.08) * (setting[1] == 1 ? 0.8 : 1.0);
        },
        noise);
    const auto outcome = controller.outcome();
    EXPECT_EQ(outcome[0].choice, "2");
    EXPECT_THAT(outcome[0].why, testing::MatchesRegex("1 takes [5-9] % longer"));
    EXPECT_EQ(outcome[1].choice, "8 threads");
    EXPECT_THAT(outcome[1].why, HasSubstr("ring takes 2"));
}

TEST(RunController, SaysNoShareOfWhatItGaveUpAfterATokenOrTwo) {
    for (const auto &[longer, said] : {std::pair(1.91, "1 was given up after a token"),
                                       std::pair(1.33, "1 was given up after 2 tokens")}) {
        RunController controller({{.name = "threads", .choices = {"2", "1"}}});
        Noise noise(0.01, 1);
        run(
            controller, 100,
            [longer = longer](std::span<const size_t> setting) { return setting[0] == 0 ? 1.0 : longer; },
            noise);
        EXPECT_EQ(controller.outcome().front().why, said);
    }
}

TEST(RunController, WithNothingToDecideItTriesNothing) {
    RunController controller({});
    Noise noise(0.02, 1);
    run(
        controller, 1000, [](auto) { return 1.0; }, noise);
    EXPECT_EQ(controller.tokens_tried(), 0U);
    EXPECT_TRUE(controller.outcome().empty());
}

TEST(RunController, NoiseAloneNeverMovesItHoweverItKnowsTheSpread) {
    for (const double spread : {0.02, 0.1, 0.3}) {
        for (uint32_t seed = 0; seed < 1000; ++seed) {
            RunController controller({{.name = "threads", .choices = {"2", "1"}}});
            Noise noise(spread, seed);
            run(
                controller, RunController::kWarmUp + 4 * PairedTrial::kMostFours, [](auto) { return 1.0; },
                noise);
            EXPECT_EQ(controller.settled().front(), 0U) << spread << " " << seed;
        }
    }
}

TEST(RunController, WhatNeedsWaitsIsNotTriedWhileNoThreadWaitsForACore) {
    RunController controller({{.name = "threads", .choices = {"2", "1"}, .needs_waits = true}});
    Noise noise(0.05, 3);
    controller.note_waits(0.01);
    run(
        controller, 100, [](auto setting) { return setting[0] == 1 ? 0.5 : 1.0; }, noise);
    EXPECT_EQ(controller.tokens_tried(), 0U);
    EXPECT_THAT(controller.outcome().front().why, HasSubstr("no thread waited for a core"));
}

TEST(RunController, WhatNeedsWaitsIsTriedWhenThreadsWaitOrNobodyKnows) {
    for (const std::optional<double> waits : {std::optional(0.5), std::optional<double>()}) {
        RunController controller({{.name = "threads", .choices = {"2", "1"}, .needs_waits = true}});
        Noise noise(0.05, 3);
        controller.note_waits(waits);
        run(
            controller, 40, [](auto setting) { return setting[0] == 1 ? 0.5 : 1.0; }, noise);
        EXPECT_EQ(controller.settled().front(), 1U);
    }
}

} // namespace
} // namespace sluice::streaming
