// What a plan says would help: it must, on imagined machines.

#include "planning/run_planner.h"
#include "support/imagined_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <string>

namespace sluice::planning {
namespace {

using test::decided;
using test::kGiB;
using test::reason_of;
using testing::EndsWith;
using testing::HasSubstr;
using Model = test::ImaginedModel;

const PlanFacts kLargeMachine{.has_experts = true, .usable_memory = 60 * kGiB};

/// The number behind `flag` in a sentence; 0 if it is not there.
uint64_t number_of(const std::string &flag, const std::string &sentence) {
    std::smatch found;
    return std::regex_search(sentence, found, std::regex(flag + " ([0-9]+)")) ? std::stoull(found[1]) : 0;
}

/// `request` with the flags that a sentence names.
PlanRequest told(PlanRequest request, const std::string &sentence) {
    if (const uint64_t mib = number_of("--cache-mb", sentence)) {
        request.model.cache_bytes = mib * kMiB;
    }
    if (const uint64_t tokens = number_of("--ubatch-size", sentence)) {
        request.session.ubatch_tokens = static_cast<uint32_t>(tokens);
        request.ubatch_given = true;
    }
    if (const uint64_t tokens = number_of("--ctx-size", sentence)) {
        request.session.context_tokens = static_cast<uint32_t>(tokens);
    }
    if (const uint64_t mib = number_of("--ram-mb", sentence)) {
        request.ram_bytes = mib * kMiB;
    }
    if (sentence.find("without --no-moe-stream") != std::string::npos) {
        request.model.stream = StreamMode::Auto;
    }
    return request;
}

/// What is said from the semicolon on.
std::string advice(const std::string &sentence) {
    const size_t at = sentence.rfind("; ");
    return at == std::string::npos ? "" : sentence.substr(at + 2);
}

std::string refusal_of(const PlanRequest &request, const PlanFacts &facts = kLargeMachine,
                       const Model &model = {}) {
    const auto plan = decide(request, facts, model.needs());
    EXPECT_FALSE(plan);
    EXPECT_EQ(plan ? ErrorCode::Internal : plan.error().code, ErrorCode::OutOfMemory);
    return plan ? "" : plan.error().message;
}

TEST(PlanRefusal, NamesWhatIsMissingAndTheLeastThatSuffices) {
    const PlanRequest request{.model = {.stream = StreamMode::Force},
                              .session = {.context_tokens = 32768},
                              .ram_bytes = 2 * kGiB,
                              .ubatch_given = true};
    const std::string said = refusal_of(request);
    EXPECT_THAT(said, HasSubstr("needs at least 4743 MiB here and 2048 MiB are allowed (--ram-mb): 2695 MiB "
                                "are missing; --ctx-size 4096 would suffice"));
    EXPECT_TRUE(decide(told(request, advice(said)), kLargeMachine, Model{}.needs()));
}

TEST(PlanRefusal, NamesFlagsThatSufficeTogetherOrSaysWhatIsMissingEvenThen) {
    size_t alone = 0;
    size_t together = 0;
    size_t never = 0;
    for (uint64_t mib = 1000; mib <= 4000; mib += 50) {
        SCOPED_TRACE(mib);
        const PlanRequest request{.model = {.cache_bytes = 900 * kMiB},
                                  .session = {.context_tokens = 8192},
                                  .ram_bytes = mib * kMiB,
                                  .ubatch_given = true};
        const auto plan = decide(request, kLargeMachine, Model{}.needs());
        if (plan) {
            continue;
        }
        const std::string said = advice(plan.error().message);
        const bool suffices = said.ends_with("would suffice");
        EXPECT_EQ(decide(told(request, said), kLargeMachine, Model{}.needs()).has_value(), suffices) << said;
        alone += suffices && !said.ends_with("together would suffice") ? 1 : 0;
        together += said.ends_with("together would suffice") ? 1 : 0;
        never += said.find("would leave") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(alone, 0U);
    EXPECT_GT(together, 0U);
    EXPECT_GT(never, 0U);
}

TEST(PlanRefusal, OfLoadingSaysThatItIsLoading) {
    const NeedsOf needs = [](const ModelOptions &model, const SessionOptions &session, bool streaming) {
        auto all = Model{}.needs()(model, session, streaming);
        all->load_peak_bytes = 5 * kGiB;
        return all;
    };
    const auto plan = decide({.ram_bytes = 4 * kGiB}, kLargeMachine, needs);
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().message, HasSubstr("while it loads, when the largest weight is held twice"));
    EXPECT_THAT(plan.error().message, testing::Not(HasSubstr("would suffice")));
    const auto ample = decide({.ram_bytes = 6 * kGiB}, kLargeMachine, needs);
    ASSERT_TRUE(ample);
    EXPECT_LE(ample->peak_bytes, 6 * kGiB);
    const auto small = decide({.model = {.cache_bytes = kGiB}}, kLargeMachine, needs);
    ASSERT_TRUE(small);
    EXPECT_EQ(small->memory.back().what, "more while it loads");
    EXPECT_GT(small->peak_bytes, 5 * kGiB) << "the peak is what loading takes";
}

// -- a ceiling for a model held in memory
// -------------------------------------------------------------------------

TEST(ResidentCeiling, IsKeptOrTheRunIsRefused) {
    const PlanRequest request{.model = {.stream = StreamMode::Never}, .ram_bytes = 10 * kGiB};
    const std::string said = refusal_of(request);
    EXPECT_THAT(said, HasSubstr("and 10240 MiB are allowed (--ram-mb): "));
    EXPECT_THAT(said, EndsWith("; streaming (without --no-moe-stream) would suffice"));
    EXPECT_TRUE(decide(told(request, said), kLargeMachine, Model{}.needs()));
}

TEST(ResidentCeiling, TakesASmallerUbatchAndContextBeforeItRefuses) {
    const RunPlan ample = decided({.model = {.stream = StreamMode::Never}}, kLargeMachine);
    const RunPlan plan = decided(
        {.model = {.stream = StreamMode::Never}, .ram_bytes = ample.peak_bytes - 500 * kMiB}, kLargeMachine);
    EXPECT_EQ(plan.session.ubatch_tokens, 64U);
    EXPECT_EQ(plan.session.context_tokens, 1024U);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
}

TEST(ResidentCeiling, HoldsForModelsWithoutExpertsToo) {
    Model dense;
    dense.experts = 0;
    EXPECT_THAT(refusal_of({.ram_bytes = kGiB}, {.usable_memory = 60 * kGiB}, dense),
                HasSubstr("are missing"));
}

TEST(ResidentCeiling, WithoutOneTheRunIsWarnedAbout) {
    const RunPlan plan =
        decided({.model = {.stream = StreamMode::Never}}, {.has_experts = true, .usable_memory = 8 * kGiB});
    ASSERT_EQ(plan.warnings.size(), 1U);
    EXPECT_THAT(plan.warnings[0], HasSubstr("it may be swapped"));
    EXPECT_TRUE(decided({.model = {.stream = StreamMode::Never, .dense_weights = DenseWeights::Mmap}},
                        {.has_experts = true, .usable_memory = 8 * kGiB})
                    .warnings.empty())
        << "mapped pages can be given back";
}

// -- a cache below what one token touches
// -------------------------------------------------------------------------

TEST(SmallCache, CeilingThatIsNamedFixesIt) {
    for (uint64_t mib = 1600; mib <= 3000; mib += 25) { // ubatch and rows saved, or not
        SCOPED_TRACE(mib);
        const PlanRequest request{.ram_bytes = mib * kMiB};
        const auto plan = decide(request, kLargeMachine, Model{}.needs());
        if (!plan || plan->warnings.empty()) {
            continue;
        }
        EXPECT_THAT(plan->warnings[0], HasSubstr("smaller than the 900 MiB that one token touches"));
        EXPECT_THAT(plan->warnings[0], EndsWith(" would fix that"));
        const RunPlan fixed = decided(told(request, advice(plan->warnings[0])), kLargeMachine);
        EXPECT_TRUE(fixed.warnings.empty()) << plan->warnings[0] << "\n" << fixed.warnings[0];
    }
}

TEST(SmallCache, CacheThatIsNamedFixesItAndFits) {
    for (uint64_t mib = 1600; mib <= 4000; mib += 50) {
        SCOPED_TRACE(mib);
        const PlanRequest request{.model = {.cache_bytes = 100 * kMiB}, .ram_bytes = mib * kMiB};
        const auto plan = decide(request, kLargeMachine, Model{}.needs());
        if (!plan) {
            continue;
        }
        ASSERT_EQ(plan->warnings.size(), 1U);
        const RunPlan fixed = decided(told(request, advice(plan->warnings[0])), kLargeMachine);
        EXPECT_TRUE(fixed.warnings.empty()) << plan->warnings[0] << "\n" << fixed.warnings[0];
    }
}

TEST(SmallCache, WhereTheMachineHasTooLittleItIsSaidHowMuchItWouldTake) {
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 2150 * kMiB});
    ASSERT_EQ(plan.warnings.size(), 1U);
    EXPECT_THAT(plan.warnings[0], testing::Not(HasSubstr("would fix that")));
    EXPECT_THAT(plan.warnings[0], HasSubstr("and 2150 MiB can be used now"));
}

} // namespace
} // namespace sluice::planning
