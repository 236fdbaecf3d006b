// Byte identity where slots are given the layout of ggml's fastest kernels: against stock as it is by
// default, which repacks experts while loading.

#include "support/gate.h"

#include <gtest/gtest.h>
#include <string>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

GateRun expect_repacked(GateConfig config) {
    config.repack_experts = true;
    GateRun run = expect_identical(config);
    EXPECT_GT(run.stats.experts.repacked, 0U) << "nothing was repacked, so nothing was proven";
    return run;
}

TEST(RepackGates, CacheOfEverythingRepacksEachSliceAtMostOnce) {
    const GateRun run = expect_repacked({.model = embedded(), .cache = CacheSize::Everything, .prompts = 2});
    EXPECT_EQ(run.stats.experts.rereads, 0U);
    EXPECT_LE(run.stats.experts.repacked, run.stats.experts.slots);
}

TEST(RepackGates, EvictedSlicesAreRepackedAgain) {
    for (const CacheSize cache : {CacheSize::Minimum, CacheSize::WorkingSet}) {
        const GateRun run = expect_repacked({.model = embedded(), .cache = cache});
        EXPECT_GT(run.stats.experts.evictions, 0U);
        EXPECT_GT(run.stats.experts.repacked, run.stats.experts.slots);
    }
}

TEST(RepackGates, PromptOf64TokensNeedsMoreExpertsThanTheCacheHolds) {
    expect_repacked({.model = embedded(), .prompt = 64});
}

TEST(RepackGates, OneThread) {
    expect_repacked({.model = embedded(), .threads = 1});
}

TEST(RepackGates, GuessedSlicesAreRepackedWhenTheyAreUsed) {
    const GateRun run =
        expect_repacked({.model = embedded(), .cache = CacheSize::WorkingSet, .lookahead = 4});
    EXPECT_GT(run.stats.experts.lookahead.used, 0U);
}

TEST(RepackGates, MixedTypesInOneLayer) {
    expect_repacked({.model = tiny_model("tiny-mixed"), .prompt = 40});
}

/// Types that x86 with AVX2 and arm64 with the dot product both have a layout for.
class RepackedType : public testing::TestWithParam<const char *> {};

TEST_P(RepackedType, SmallestCacheLongPromptThenTokens) {
    expect_repacked({.model = tiny_model("tiny-qwen3moe", GetParam()), .prompt = 64});
}

INSTANTIATE_TEST_SUITE_P(All, RepackedType, testing::Values("q4_K", "q4_0", "iq4_nl", "mxfp4"),
                         [](const auto &info) { return std::string(info.param); });

/// Types that may or may not have one: either way the bytes are stock's.
class AnyType : public testing::TestWithParam<const char *> {};

TEST_P(AnyType, SmallestCacheLongPromptThenTokens) {
    expect_identical(
        {.model = tiny_model("tiny-qwen3moe", GetParam()), .prompt = 64, .repack_experts = true});
}

INSTANTIATE_TEST_SUITE_P(All, AnyType,
                         testing::Values("q2_K", "q5_K", "q6_K", "q8_0", "q1_0", "iq4_xs", "iq2_xxs", "iq1_s",
                                         "f16"),
                         [](const auto &info) { return std::string(info.param); });

TEST(RepackGates, OtherArchitectures) {
    for (const char *recipe : {"tiny-gemma4", "tiny-gpt-oss"}) {
        expect_identical({.model = tiny_model(recipe), .repack_experts = true});
    }
    expect_identical({.model = arch_model("deepseek4-moe"), .repack_experts = true});
}

TEST(RepackGates, RefusedWhereNothingIsToBeRepacked) {
    const auto model = Model::load(
        {.path = embedded(), .stream = StreamMode::Force, .repack = false, .repack_experts = true});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::InvalidArgument);
}

} // namespace
} // namespace sluice::test
