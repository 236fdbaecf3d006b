// Byte identity: a streamed run gives every logit byte that stock llama.cpp gives.

#include "support/gate.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

// -- the embedded model, really trained: cache sizes, threads, ways of reading
// ------------------------------------

TEST(EmbeddedModel, CacheOfEverything) {
    const GateRun run = expect_identical({.model = embedded(), .cache = CacheSize::Everything, .prompts = 2});
    EXPECT_EQ(run.stats.experts.graphs, 2U * (1 + 24)) << "a ubatch must be one graph call, without splits";
}

TEST(EmbeddedModel, CacheOfOneTokensWorkingSet) {
    expect_identical({.model = embedded(), .cache = CacheSize::WorkingSet});
}

TEST(EmbeddedModel, CacheOfTheMinimumEvicts) {
    expect_identical({.model = embedded(), .cache = CacheSize::Minimum});
}

TEST(EmbeddedModel, OneThread) {
    expect_identical({.model = embedded(), .threads = 1});
}

TEST(EmbeddedModel, FourThreads) {
    // On two cores four spinning threads are slow, so a small model does.
    expect_identical({.model = tiny_model("tiny-qwen3moe", "q4_K"), .threads = 4, .prompt = 8});
}

TEST(EmbeddedModel, BufferedReads) {
    const GateRun run = expect_identical({.model = embedded(), .direct = false});
    EXPECT_FALSE(run.info.direct);
}

TEST(EmbeddedModel, DirectReads) {
    const GateRun run = expect_identical({.model = embedded()});
    if (!run.info.direct) {
        GTEST_SKIP() << "no direct reads here: " << run.info.direct_refusal;
    }
    EXPECT_EQ(run.stats.experts.buffered_fallbacks, 0U);
}

TEST(EmbeddedModel, WithoutRepacking) {
    expect_identical({.model = embedded(), .repack = false});
}

TEST(EmbeddedModel, PromptOfOneToken) {
    expect_identical({.model = embedded(), .prompt = 1});
}

TEST(EmbeddedModel, PromptOf64TokensNeedsMoreExpertsThanTheCacheHolds) {
    expect_identical({.model = embedded(), .prompt = 64});
}

TEST(EmbeddedModel, PromptOf64TokensAllCached) {
    const GateRun run = expect_identical({.model = embedded(), .cache = CacheSize::Everything, .prompt = 64});
    EXPECT_GT(run.stats.experts.prefetched, 0U) << "the next layer's experts come while a layer computes";
}

TEST(EmbeddedModel, UbatchesThatDoNotDivideThePrompt) {
    expect_identical({.model = embedded(), .ubatch = 7, .prompt = 64});
}

TEST(EmbeddedModel, TwoPromptsInARowOnAWarmCache) {
    const GateRun run = expect_identical({.model = embedded(), .cache = CacheSize::WorkingSet, .prompts = 2});
    EXPECT_GT(run.stats.experts.hits, 0U);
}

// -- every type that experts come in
// ------------------------------------------------------------------------------

class ExpertType : public testing::TestWithParam<const char *> {};

TEST_P(ExpertType, SmallestCacheLongPromptThenTokens) {
    const std::string model = tiny_model("tiny-qwen3moe", GetParam());
    expect_identical({.model = model, .cache = CacheSize::Minimum, .prompt = 64});
}

TEST_P(ExpertType, AllCachedOneThread) {
    const std::string model = tiny_model("tiny-qwen3moe", GetParam());
    expect_identical({.model = model, .cache = CacheSize::Everything, .threads = 1, .prompt = 9});
}

INSTANTIATE_TEST_SUITE_P(All, ExpertType,
                         testing::Values("q4_K", "q6_K", "q8_0", "q4_0", "mxfp4", "iq4_nl", "f16", "bf16",
                                         "f32", "q2_K", "q3_K", "q5_K", "q4_1", "q5_0", "q5_1", "tq1_0",
                                         "tq2_0", "nvfp4", "q1_0", "q2_0"),
                         [](const auto &info) { return std::string(info.param); });

/// Types for which stock has a kernel of its own for batches: it must have run, on staged weights.
class PanelType : public testing::TestWithParam<const char *> {};

TEST_P(PanelType, LongPromptRunsTheStockKernelOnStagedWeights) {
    const std::string model = tiny_model("tiny-qwen3moe", GetParam());
    for (const CacheSize cache : {CacheSize::Minimum, CacheSize::Everything}) {
        const GateRun run = expect_identical({.model = model, .cache = cache, .prompt = 64});
        EXPECT_GT(run.stats.experts.staged_steps, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(All, PanelType,
                         testing::Values("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s",
                                         "iq4_xs"),
                         [](const auto &info) { return std::string(info.param); });

// -- shapes
// -------------------------------------------------------------------------------------------------------

TEST(Shapes, MixedTypesInOneLayerAndBetweenLayers) {
    const std::string model = tiny_model("tiny-mixed");
    expect_identical({.model = model, .cache = CacheSize::Minimum, .prompt = 40});
    expect_identical({.model = model, .cache = CacheSize::WorkingSet, .prompt = 40});
}

TEST(Shapes, SplitModel) {
    const std::string model = tiny_model("tiny-qwen3moe", "q4_K", 3);
    EXPECT_NE(model.find("-00001-of-00003.gguf"), std::string::npos);
    expect_identical({.model = model});
}

TEST(Shapes, FusedGateAndUpWithPerLayerEmbeddings) {
    expect_identical({.model = tiny_model("tiny-gemma4")});
}

TEST(Shapes, ExpertBiases) {
    expect_identical({.model = tiny_model("tiny-gpt-oss")});
}

TEST(Shapes, HybridOfMambaAttentionAndExperts) {
    expect_identical({.model = tiny_model("tiny-nemotron-h-moe")});
}

TEST(Shapes, TiedEmbeddings) {
    expect_identical({.model = tiny_model("tiny-tied")});
}

// -- architectures, as saved by upstream's own test program
// -------------------------------------------------------

class Architecture : public testing::TestWithParam<const char *> {};

TEST_P(Architecture, MinimumCache) {
    expect_identical({.model = arch_model(GetParam()), .cache = CacheSize::Minimum});
}

TEST_P(Architecture, EverythingCachedWithoutRepacking) {
    expect_identical(
        {.model = arch_model(GetParam()), .cache = CacheSize::Everything, .prompts = 2, .repack = false});
}

INSTANTIATE_TEST_SUITE_P(Upstream, Architecture,
                         testing::Values("qwen3moe-moe", "qwen35moe-moe", "gpt-oss-moe", "deepseek2-moe",
                                         "deepseek4-moe", "lfm2moe-moe", "qwen4exp-moe", "olmoe-moe",
                                         "llama-moe", "llama4-moe", "glm4moe-moe", "grovemoe-moe",
                                         "phimoe-moe"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// -- several at once
// ----------------------------------------------------------------------------------------------

TEST(SeveralAtOnce, TwoModelsAndTwoContextsEachInOneProcess) {
    const std::string a = embedded();
    const std::string b = tiny_model("tiny-qwen3moe", "q8_0");
    const std::vector<float> stock_a = run_stock({.model = a});
    const std::vector<float> stock_b = run_stock({.model = b});
    auto first = Model::load(
        {.path = a, .stream = StreamMode::Force, .cache_bytes = cache_bytes(a, CacheSize::Minimum, true)});
    auto second = Model::load(
        {.path = b, .stream = StreamMode::Force, .cache_bytes = cache_bytes(b, CacheSize::Minimum, true)});
    auto resident = Model::load({.path = b, .stream = StreamMode::Never, .repack = false});
    ASSERT_TRUE(first && second && resident);
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> logits(5);
    const std::vector<Model *> models{&*first, &*second, &*first, &*second, &*resident};
    for (size_t i = 0; i < models.size(); ++i) {
        threads.emplace_back([&, i] { logits[i] = run_session(*models[i], {.threads = 2}); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (size_t i = 0; i < 4; ++i) {
        const std::vector<float> &stock = i % 2 == 0 ? stock_a : stock_b;
        ASSERT_EQ(stock.size(), logits[i].size());
        EXPECT_EQ(std::memcmp(stock.data(), logits[i].data(), stock.size() * sizeof(float)), 0)
            << "session " << i;
    }
    EXPECT_EQ(logits[4], run_stock({.model = b, .repack = false}));
}

} // namespace
} // namespace sluice::test
