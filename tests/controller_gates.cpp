// Whatever a run decides about its own speed, and however often, the logits are stock's.

#include "session/session.h"
#include "support/gate.h"

#include <gtest/gtest.h>
#include <optional>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

/// A run whose threads, reading and lookahead are another for every batch.
class RestlessGate : public testing::TestWithParam<CacheSize> {};

TEST_P(RestlessGate, ChangesNoByte) {
    const GateConfig config{.model = embedded(),
                            .cache = GetParam(),
                            .threads = 4,
                            .drawn = 48,
                            .prompts = 2,
                            .decides = Decides::ItselfRestless};
    const GateRun run = expect_identical(config);
    EXPECT_GT(run.stats.experts.lookahead.experts, 0U);
    ASSERT_EQ(run.stats.settled.size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Caches, RestlessGate,
                         testing::Values(CacheSize::Everything, CacheSize::WorkingSet, CacheSize::Minimum),
                         [](const auto &info) {
                             return info.param == CacheSize::Everything   ? "Everything"
                                    : info.param == CacheSize::WorkingSet ? "WorkingSet"
                                                                          : "Minimum";
                         });

TEST(ControllerGates, ARunThatDecidesForItselfChangesNoByte) {
    const GateConfig config{
        .model = embedded(), .cache = CacheSize::WorkingSet, .drawn = 120, .decides = Decides::Itself};
    const GateRun run = expect_identical(config);
    EXPECT_GT(run.stats.tokens_tried, 0U);
}

TEST(ControllerGates, WhatIsGivenIsNeverTried) {
    const GateRun run = expect_identical({.model = embedded(), .cache = CacheSize::WorkingSet, .drawn = 60});
    EXPECT_TRUE(run.stats.settled.empty()); // a gate gives threads, reading and lookahead
    EXPECT_EQ(run.stats.tokens_tried, 0U);
}

TEST(ControllerGates, DecisionsAreTheModelsWhicheverSessionRuns) {
    GateConfig config{.model = embedded(), .cache = CacheSize::WorkingSet, .decides = Decides::Itself};
    ModelOptions options = gate_options(config);
    options.cache_bytes = cache_bytes(config.model, config.cache, true);
    auto model = Model::load(options);
    ASSERT_TRUE(model) << model.error().message;
    auto first = std::make_optional(Session::create(*model, {.context_tokens = 64}));
    ASSERT_TRUE(*first);
    const auto second = Session::create(*model, {.context_tokens = 64});
    ASSERT_TRUE(second);
    const auto decides = [](const Session &session, const char *name) {
        for (const SettledSetting &setting : session.stats().settled) {
            if (setting.name == name) {
                return true;
            }
        }
        return false;
    };
    EXPECT_TRUE(decides(**first, "reading"));
    EXPECT_TRUE(decides(*second, "reading"));
    first.reset();
    const auto third = Session::create(*model, {.context_tokens = 64});
    ASSERT_TRUE(third);
    EXPECT_TRUE(decides(*third, "lookahead"));
}

} // namespace
} // namespace sluice::test
