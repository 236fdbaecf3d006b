// Settings that change while a model computes: its bytes stay those of stock, and what was asked for is in
// force.

#include "session/model_state.h"
#include "streamed_models.h"
#include "streaming/runtime/stream_runtime.h"
#include "support/gate.h"
#include "support/gate_contexts.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace sluice::test {
namespace {

const std::string kModel = std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";

class RunningSettings : public testing::Test {
protected:
    void load(const GateConfig &config = {
                  .model = kModel, .batch = BatchKind::Ubatches, .decides = Decides::Itself}) {
        config_ = config;
        ModelOptions options = gate_options(config_);
        options.cache_bytes.reset();
        auto model = Model::load(options);
        ASSERT_TRUE(model) << model.error().message;
        model_.emplace(std::move(*model));
    }

    streaming::StreamRuntime &runtime() { return *model_->state().streamed->runtime; }
    streaming::StreamedStore &store() { return *model_->state().streamed->store; }

    std::vector<float> decode() {
        std::vector<float> logits;
        EXPECT_TRUE(decode_in_contexts(config_.batch, model_->state().llama.get(), config_.threads, logits));
        return logits;
    }

    void expect_stock(const std::vector<float> &logits) {
        const std::vector<float> stock = run_stock(config_);
        ASSERT_EQ(stock.size(), logits.size());
        EXPECT_EQ(std::memcmp(stock.data(), logits.data(), stock.size() * sizeof(float)), 0);
    }

    GateConfig config_;
    std::optional<Model> model_;
};

TEST_F(RunningSettings, ChangedAllTheTimeChangeNoByte) {
    load();
    decode(); // the cache is there
    std::atomic<bool> done = false;
    std::thread changer([&] {
        const uint64_t least = store().cache()->plan().minimum_bytes;
        for (size_t i = 0; !done; ++i) {
            EXPECT_TRUE(runtime().limit_cache(i % 3 == 0 ? std::nullopt : std::optional(least * (i % 3))));
            EXPECT_TRUE(runtime().set_lookahead(i % 2 == 0 ? std::optional(0U) : std::nullopt));
            if (i % 5 == 0) {
                runtime().trim();
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    });
    const std::vector<float> logits = decode();
    done = true;
    changer.join();
    expect_stock(logits);
}

TEST_F(RunningSettings, LossyOnesAreInForceFromTheNextGraphOnAndGoAway) {
    load();
    decode();
    ASSERT_TRUE(runtime().limit_cache(store().cache()->plan().minimum_bytes));
    runtime().set_lossy(1024, 0);
    decode();
    EXPECT_GT(store().counters.dropped_experts, 0U);
    EXPECT_EQ(runtime().lossy().flags(), "--drop-cold 1024");
    runtime().set_lossy(0, 0);
    const uint64_t dropped = store().counters.dropped_experts;
    expect_stock(decode());
    EXPECT_EQ(store().counters.dropped_experts, dropped);
}

TEST_F(RunningSettings, LossyOnesReachPlansThatWereBuiltBefore) {
    load();
    std::vector<float> logits;
    GateSequence sequence(model_->state().llama.get(), 64, 2, logits);
    ASSERT_TRUE(sequence.prompt(0, 4));
    ASSERT_TRUE(runtime().limit_cache(store().cache()->plan().minimum_bytes));
    ASSERT_TRUE(sequence.draw(4));
    EXPECT_EQ(store().counters.dropped_experts, 0U);
    runtime().set_lossy(1024, 0);
    ASSERT_TRUE(sequence.draw(4));
    EXPECT_GT(store().counters.dropped_experts, 0U);
}

TEST_F(RunningSettings, CacheLimitHoldsUntilItIsSetAgain) {
    load();
    decode();
    residency::ExpertCache &cache = *store().cache();
    const size_t whole = cache.limit();
    const uint64_t less = cache.plan().minimum_bytes + (whole - cache.plan().minimum_bytes) / 2;
    ASSERT_TRUE(runtime().limit_cache(less));
    EXPECT_LE(cache.limit(), less);
    EXPECT_LE(cache.held_bytes(), less);
    std::this_thread::sleep_for(std::chrono::milliseconds(300)); // memory is looked at four times a second
    decode();
    EXPECT_LE(cache.limit(), less) << "memory to spare does not undo what was asked for";
    ASSERT_TRUE(runtime().limit_cache(std::nullopt));
    EXPECT_EQ(cache.limit(), whole);
}

TEST_F(RunningSettings, CacheLimitThatIsSetBeforeThereIsACacheHoldsOnceThereIs) {
    load();
    const uint64_t less = uint64_t{20} << 20U;
    ASSERT_TRUE(runtime().limit_cache(less));
    decode();
    ASSERT_GT(store().cache()->plan().arena_bytes, less);
    EXPECT_LE(store().cache()->limit(), less);
}

TEST_F(RunningSettings, CacheBelowWhatATokenNeedsIsRefused) {
    load();
    decode();
    const auto refused = runtime().limit_cache(store().cache()->plan().minimum_bytes - 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
}

TEST_F(RunningSettings, TrimmedCacheGivesItsMemoryBackAndFillsAgain) {
    load();
    flash::StreamedModels models([this] { return std::vector{model_->state().streamed}; });
    const auto model = models.models().at(0);
    EXPECT_EQ(model->trim(), 0U) << "there is no cache yet";
    decode();
    residency::ExpertCache &cache = *store().cache();
    const size_t held = cache.held_bytes();
    const size_t freed = model->trim();
    EXPECT_GT(freed, 0U);
    EXPECT_EQ(cache.held_bytes(), held - freed);
    EXPECT_LE(cache.held_bytes(), cache.plan().minimum_bytes);
    expect_stock(decode());
    EXPECT_GT(cache.held_bytes(), 0U);
}

TEST_F(RunningSettings, PanelReadsWhatTheModelDid) {
    load();
    flash::StreamedModels models([this] { return std::vector{model_->state().streamed}; });
    decode();
    const auto model = models.models().at(0);
    EXPECT_EQ(models.models().at(0)->id(), model->id());
    const flash::Counts counts = model->counts();
    EXPECT_GT(counts.graphs, 0U);
    EXPECT_GT(counts.tokens + counts.prompt_tokens, 0U);
    EXPECT_GT(counts.compute_nanoseconds, 0U);
    EXPECT_GT(counts.between_nanoseconds, 0U);
    EXPECT_GT(counts.misses, 0U);
    EXPECT_GT(counts.device_bytes, 0U);
    EXPECT_FALSE(model->is_computing());
    const auto layers = model->layers();
    ASSERT_FALSE(layers.empty());
    for (const flash::LayerUse &layer : layers) {
        EXPECT_GT(std::count(layer.there.begin(), layer.there.end(), true), 0);
        EXPECT_GT(*std::max_element(layer.asked.begin(), layer.asked.end()), 0U);
    }
    const flash::ModelFacts facts = model->facts();
    EXPECT_GT(facts.dense_bytes, 0U);
    EXPECT_GT(facts.file_bytes, facts.streamed_bytes);
    EXPECT_GT(facts.cache.held, 0U);
    EXPECT_TRUE(model->dense_residency().resident);
}

TEST_F(RunningSettings, TokensWithLogitsAreToldFromPromptTokens) {
    load();
    const GateContext context(
        llama_init_from_model(model_->state().llama.get(), gate_context(64, 64, 2, BatchKind::Tokens)));
    ASSERT_NE(context, nullptr);
    std::vector<int32_t> tokens{1, 2, 3, 4};
    // Of a batch without further words only the last token gets logits.
    ASSERT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), 4)), 0);
    EXPECT_EQ(store().counters.prompt_tokens, 4U);
    EXPECT_EQ(store().counters.tokens, 0U);
    ASSERT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), 1)), 0);
    EXPECT_EQ(store().counters.prompt_tokens, 4U);
    EXPECT_EQ(store().counters.tokens, 1U);
    EXPECT_EQ(store().counters.graphs, store().counters.graphs_ended);
}

} // namespace
} // namespace sluice::test
