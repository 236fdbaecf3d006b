// Byte identity for contexts that llama.cpp makes by itself: no session ever touches the model, so whatever a
// context needs comes from below.

#include "session/model_state.h"
#include "support/gate.h"
#include "support/gate_contexts.h"

#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

/// A streamed model with a cache of one token's slices, or of what `config` says.
std::optional<Model> load(const GateConfig &config) {
    ModelOptions options = gate_options(config);
    options.cache_bytes = cache_bytes(config.model, config.cache, config.direct);
    auto model = Model::load(options);
    if (!model) {
        ADD_FAILURE() << model.error().message;
        return std::nullopt;
    }
    return std::move(*model);
}

void expect_same(const std::vector<float> &stock, const std::vector<float> &streamed) {
    ASSERT_FALSE(stock.empty());
    ASSERT_EQ(stock.size(), streamed.size());
    EXPECT_EQ(std::memcmp(stock.data(), streamed.data(), stock.size() * sizeof(float)), 0);
}

void expect_streamed(Model &model) {
    const session::ModelState &state = model.state();
    ASSERT_NE(state.streamed->store->cache(), nullptr);
    const residency::ExpertCounters counters = state.streamed->store->cache()->counters();
    EXPECT_GT(counters.misses, 0U);
    EXPECT_GT(counters.bytes_read, 0U);
    EXPECT_GT(counters.evictions, 0U);
    EXPECT_GT(counters.rereads, 0U);
    EXPECT_EQ(counters.errors, 0U);
    EXPECT_EQ(state.streamed->store->counters.materialized, 0U);
    EXPECT_FALSE(state.streamed->store->last_error());
}

class OwnContexts : public testing::TestWithParam<std::tuple<BatchKind, Decides>> {};

TEST_P(OwnContexts, ComputeTheBytesOfStock) {
    const auto [kind, decides] = GetParam();
    const GateConfig config{.model = embedded(), .batch = kind, .decides = decides};
    auto model = load(config);
    ASSERT_TRUE(model);
    EXPECT_EQ(model->state().streamed->store->cache(), nullptr) << "it is made when the first graph comes";
    if (decides == Decides::ItselfRestless) {
        model->state().streamed->runtime->make_restless();
    }
    std::vector<float> logits;
    ASSERT_TRUE(decode_in_contexts(kind, model->state().llama.get(), config.threads, logits));
    expect_same(run_stock(config), logits);
    expect_streamed(*model);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OwnContexts,
                         testing::Combine(testing::Values(BatchKind::Ubatches, BatchKind::BeforeAndAfter,
                                                          BatchKind::Draft, BatchKind::State,
                                                          BatchKind::OtherOrder),
                                          testing::Values(Decides::Gate, Decides::ItselfRestless)),
                         [](const auto &info) {
                             return batch_name(std::get<0>(info.param)) +
                                    std::string(std::get<1>(info.param) == Decides::Gate ? "" : "Restless");
                         });

TEST(OwnContext, ParallelSequencesComputeTheBytesOfStock) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Sequences};
    auto model = load(config);
    ASSERT_TRUE(model);
    llama_model *llama = model->state().llama.get();
    const GateContext context(llama_init_from_model(
        llama, gate_context(config.prompt, config.ubatch, config.threads, config.batch)));
    ASSERT_NE(context, nullptr);
    std::vector<float> logits;
    const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama)));
    ASSERT_TRUE(decode_sequences(context.get(), vocabulary, logits));
    expect_same(run_stock(config), logits);
    expect_streamed(*model);
}

TEST(OwnContext, TwoModelsFromTwoThreadsComputeTheBytesOfStock) {
    const GateConfig configs[] = {{.model = embedded(), .batch = BatchKind::Ubatches},
                                  {.model = tiny_model("tiny-qwen3moe"), .batch = BatchKind::Draft}};
    std::optional<Model> models[] = {load(configs[0]), load(configs[1])};
    std::vector<float> logits[2];
    bool decoded[2] = {};
    ASSERT_TRUE(models[0] && models[1]);
    {
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < 2; ++i) {
            threads.emplace_back([&, i] {
                decoded[i] = decode_in_contexts(configs[i].batch, models[i]->state().llama.get(),
                                                configs[i].threads, logits[i]);
            });
        }
    }
    for (size_t i = 0; i < 2; ++i) {
        SCOPED_TRACE(configs[i].model);
        EXPECT_TRUE(decoded[i]);
        expect_same(run_stock(configs[i]), logits[i]);
        expect_streamed(*models[i]);
    }
}

TEST(OwnContext, TwoContextsOfOneModelFromTwoThreadsComputeTheBytesOfStock) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::BeforeAndAfter};
    auto model = load(config);
    ASSERT_TRUE(model);
    std::vector<float> logits[2];
    bool decoded[2] = {};
    {
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < 2; ++i) {
            threads.emplace_back([&, i] {
                decoded[i] =
                    decode_in_contexts(config.batch, model->state().llama.get(), config.threads, logits[i]);
            });
        }
    }
    const std::vector<float> stock = run_stock(config);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(decoded[i]);
        expect_same(stock, logits[i]);
    }
    expect_streamed(*model);
}

TEST(OwnContext, CacheThatIsTooSmallFailsTheGraphAndTheModelSaysWhy) {
    ModelOptions options = gate_options({.model = embedded()});
    options.cache_bytes = 1;
    auto model = Model::load(options);
    ASSERT_TRUE(model) << model.error().message;
    std::vector<float> logits;
    GateSequence sequence(model->state().llama.get(), 64, 2, logits);
    EXPECT_FALSE(sequence.prompt(0, 4));
    EXPECT_TRUE(model->state().streamed->store->last_error());
}

} // namespace
} // namespace sluice::test
