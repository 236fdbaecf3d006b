// Byte identity: a streamed run gives every logit byte that stock llama.cpp gives.

#include "residency/row_source.h"
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

// -- whoever is evicted
// -------------------------------------------------------------------------------------------

class EveryPolicy : public testing::TestWithParam<CachePolicy> {};

TEST_P(EveryPolicy, EvictsAtTheMinimumAndAtTheWorkingSetWithoutChangingAByte) {
    for (const CacheSize cache : {CacheSize::Minimum, CacheSize::WorkingSet}) {
        const GateRun run = expect_identical({.model = embedded(), .cache = cache, .policy = GetParam()});
        EXPECT_GT(run.stats.experts.evictions, 0U);
        EXPECT_GT(run.stats.experts.rereads, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy,
                         testing::Values(CachePolicy::NextUse, CachePolicy::Lru, CachePolicy::Lfu),
                         [](const auto &info) {
                             return std::string(info.param == CachePolicy::NextUse ? "NextUse"
                                                : info.param == CachePolicy::Lru   ? "Lru"
                                                                                   : "Lfu");
                         });

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

// -- ways of holding dense weights
// --------------------------------------------------------------------------------

std::string dense_name(DenseWeights mode) {
    constexpr const char *kNames[] = {"Anon", "Mmap", "Warm", "Locked"};
    return kNames[static_cast<int>(mode)];
}

class Dense : public testing::TestWithParam<DenseWeights> {};

TEST_P(Dense, Repacked) {
    expect_identical({.model = embedded(), .dense = GetParam()});
}

TEST_P(Dense, NotRepacked) {
    expect_identical({.model = embedded(), .repack = false, .dense = GetParam()});
}

TEST_P(Dense, TiedEmbeddingsOfASplitModel) {
    expect_identical({.model = tiny_model("tiny-tied", "", 2), .dense = GetParam()});
}

TEST_P(Dense, HybridNotRepacked) {
    expect_identical({.model = tiny_model("tiny-nemotron-h-moe"), .repack = false, .dense = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Weights, Dense,
                         testing::Values(DenseWeights::Anon, DenseWeights::Mmap, DenseWeights::Warm,
                                         DenseWeights::Locked),
                         [](const auto &info) { return dense_name(info.param); });

// -- row-gathered tables: G15a with the default window, G15b with a window of one slab
// ---------------------------------------------------

constexpr uint64_t kDefaultWindow = uint64_t{64} << 20U;
const uint64_t kOneSlab = residency::slab_bytes();

/// A model with a table that qualifies, and how it is run.
struct RowCase {
    const char *name;
    std::string (*model)();
    GateConfig config = {};
};

void PrintTo(const RowCase &row_case, std::ostream *out) {
    *out << row_case.name;
}

class RowGate : public testing::TestWithParam<RowCase> {
protected:
    static GateRun run(uint64_t window) {
        GateConfig config = GetParam().config;
        config.model = GetParam().model();
        config.row_window = window;
        return expect_identical(config);
    }
};

const RowCase kRowCases[] = {
    {"qwen3moe_untied", [] { return tiny_model("tiny-vocab"); }},
    {"qwen3moe_saved_upstream", [] { return arch_model("qwen3moe-moe"); }},
    {"qwen3moe_split", [] { return tiny_model("tiny-vocab", "q4_K", 3); }},
    {"gemma4_fused_experts_per_layer_table", [] { return tiny_model("tiny-gemma4"); }},
    {"qwen4exp_hashed_table", [] { return arch_model("qwen4exp-moe"); }},
    {"hashed_table", [] { return tiny_model("tiny-hashed"); }},
    {"dense_gemma_per_layer_table", [] { return tiny_model("tiny-gemma-dense"); }, {.experts = false}},
    {"gathers_of_512_tokens",
     [] { return tiny_model("tiny-vocab"); },
     {.cache = CacheSize::Everything, .ubatch = 512, .prompt = 512, .drawn = 4}},
    {"gathers_of_1_token", [] { return tiny_model("tiny-vocab"); }, {.prompt = 1, .drawn = 40}},
    {"hashed_table_512_tokens",
     [] { return tiny_model("tiny-hashed"); },
     {.cache = CacheSize::Everything, .ubatch = 512, .prompt = 512, .drawn = 4}},
    {"several_sequences_in_a_batch",
     [] { return tiny_model("tiny-vocab"); },
     {.batch = BatchKind::Sequences}},
    {"several_sequences_hashed", [] { return tiny_model("tiny-hashed"); }, {.batch = BatchKind::Sequences}},
    {"vectors_instead_of_tokens", [] { return tiny_model("tiny-vocab"); }, {.batch = BatchKind::Embeddings}},
    {"buffered_reads", [] { return tiny_model("tiny-vocab"); }, {.direct = false}},
    {"without_repacking", [] { return tiny_model("tiny-vocab"); }, {.repack = false}},
    {"one_thread", [] { return tiny_model("tiny-hashed"); }, {.threads = 1}},
    {"dense_mmap", [] { return tiny_model("tiny-vocab"); }, {.dense = DenseWeights::Mmap}},
    {"dense_mmap_not_repacked",
     [] { return tiny_model("tiny-gemma4"); },
     {.repack = false, .dense = DenseWeights::Mmap}},
    {"dense_warm_hashed", [] { return tiny_model("tiny-hashed"); }, {.dense = DenseWeights::Warm}},
    {"dense_locked", [] { return tiny_model("tiny-vocab"); }, {.dense = DenseWeights::Locked}},
    {"dense_gemma_mmap",
     [] { return tiny_model("tiny-gemma-dense"); },
     {.repack = false, .dense = DenseWeights::Mmap, .experts = false}},
    {"two_prompts", [] { return tiny_model("tiny-vocab"); }, {.ubatch = 7, .prompt = 40, .prompts = 2}},
};

using G15a = RowGate;
TEST_P(G15a, DefaultWindow) {
    EXPECT_EQ(run(kDefaultWindow).stats.rows.evictions, 0U);
}

using G15b = RowGate;
TEST_P(G15b, WindowOfOneSlab) {
    run(kOneSlab);
}

const auto row_case_name = [](const auto &info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Rows, G15a, testing::ValuesIn(kRowCases), row_case_name);
INSTANTIATE_TEST_SUITE_P(Rows, G15b, testing::ValuesIn(kRowCases), row_case_name);

uint64_t row_bytes_but(const std::vector<RowTableInfo> &tables, const RowTableInfo &left_out) {
    uint64_t bytes = 0;
    for (const RowTableInfo &table : tables) {
        bytes += table.name == left_out.name ? 0 : table.bytes;
    }
    return bytes;
}

/// llama.cpp asks about the head before the embeddings in some architectures (tiny-gemma4), after them in
/// others.
TEST(RowTables, TiedEmbeddingsDoNotQualify) {
    for (const char *recipe : {"tiny-tied", "tiny-gemma4"}) {
        for (const bool repack : {true, false}) {
            for (const DenseWeights dense : {DenseWeights::Anon, DenseWeights::Mmap}) {
                GateConfig config{.model = tiny_model(recipe), .repack = repack, .dense = dense};
                const std::vector<float> stock = run_stock(config);
                config.row_window = kDefaultWindow;
                const GateRun streamed = run_streamed(config);
                EXPECT_EQ(streamed.logits, stock);
                const auto tied = std::find_if(streamed.row_tables.begin(), streamed.row_tables.end(),
                                               [](const RowTableInfo &table) { return !table.streamed; });
                ASSERT_NE(tied, streamed.row_tables.end());
                EXPECT_NE(tied->reason.find("tied"), std::string::npos) << tied->reason;
                EXPECT_EQ(streamed.stats.rows.table_bytes, row_bytes_but(streamed.row_tables, *tied))
                    << "a tied table saves no memory";
                EXPECT_EQ(streamed.stats.experts.materialized, 0U);
            }
        }
    }
}

TEST(RowTables, TiedEmbeddingsAreInMemoryOnce) {
    const std::string path = tiny_model("tiny-tied");
    for (const bool repack : {true, false}) {
        uint64_t dense[2] = {};
        for (const bool rows : {false, true}) {
            auto model = Model::load({.path = path,
                                      .stream = StreamMode::Force,
                                      .cache_bytes = uint64_t{64} << 20U,
                                      .row_stream = rows,
                                      .repack = repack});
            ASSERT_TRUE(model) << model.error().message;
            auto session = Session::create(*model, {.context_tokens = 64, .threads = 1});
            ASSERT_TRUE(session) << session.error().message;
            dense[rows ? 1 : 0] = session->stats().dense_bytes;
        }
        EXPECT_LE(dense[1], dense[0]) << "repack " << repack;
    }
}

TEST(RowTables, WhereTheIndicesComeFromIsReported) {
    for (const char *recipe : {"tiny-vocab", "tiny-hashed", "tiny-gemma-dense"}) {
        const GateRun run = run_streamed({.model = tiny_model(recipe), .row_window = kDefaultWindow});
        ASSERT_FALSE(run.row_tables.empty());
        for (const RowTableInfo &table : run.row_tables) {
            EXPECT_TRUE(table.streamed) << table.name << ": " << table.reason;
            EXPECT_TRUE(table.index_is_input) << table.name;
            EXPECT_FALSE(table.index_is_computed) << table.name;
        }
    }
}

// gemma4 looks at row 0 of its per-layer table itself where vectors stand in the place of tokens.
TEST(RowTables, TableUsedOtherwiseForVectorsIsBroughtIn) {
    const GateConfig config{
        .model = tiny_model("tiny-gemma-dense"), .row_window = kOneSlab, .batch = BatchKind::Embeddings};
    const GateRun streamed = run_streamed(config);
    EXPECT_EQ(streamed.logits, run_stock(config));
    EXPECT_EQ(streamed.stats.experts.materialized, 1U);
}

TEST(RowTables, ExpertCountersAreTheSameWithAndWithout) {
    for (const CacheSize cache : {CacheSize::WorkingSet, CacheSize::Everything}) {
        GateConfig config{.model = tiny_model("tiny-vocab"), .cache = cache, .prompt = 1, .drawn = 30};
        const ExpertStats off = run_streamed(config).stats.experts;
        config.row_window = kOneSlab;
        const ExpertStats on = run_streamed(config).stats.experts;
        EXPECT_EQ(on.hits, off.hits);
        EXPECT_EQ(on.misses, off.misses);
        EXPECT_EQ(on.evictions, off.evictions);
        EXPECT_EQ(on.rereads, off.rereads);
        EXPECT_EQ(on.prefetched, off.prefetched);
        EXPECT_EQ(on.bytes_read, off.bytes_read);
        EXPECT_EQ(on.device_bytes, off.device_bytes);
    }
}

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
