// Graphs that llama.cpp does not build: streamed weights used otherwise, and routers gone wrong.

#include "platform/reserved_memory.h"
#include "support/gate_prompt.h"
#include "support/own_graph.h"

#include <algorithm>
#include <limits>

namespace sluice::test {
namespace {

class OwnGraph : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-qwen3moe", "q8_0"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U},
             streaming::Role::Experts);
    }
};

TEST_F(OwnGraph, WeightUsedOtherwiseIsBroughtInWholeOnceAndSaysSo) {
    // One expert's slice, multiplied like any dense weight.
    ggml_tensor *slice = ggml_view_2d(context_.get(), weight_, weight_->ne[0], weight_->ne[1], weight_->nb[1],
                                      3 * weight_->nb[2]);
    ggml_tensor *product =
        ggml_mul_mat(context_.get(), slice, ggml_reshape_2d(context_.get(), input_, weight_->ne[0], 2));
    testing::internal::CaptureStderr();
    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(weight_->name), std::string::npos) << said;
    EXPECT_NE(said.find("MUL_MAT"), std::string::npos) << said;
    EXPECT_EQ(store().counters.materialized, 1U);
    const std::vector<float> streamed = values(product);

    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().counters.materialized, 1U);

    // The same on the slice's bytes read from the file, by a plain CPU backend.
    const auto memory = platform::ReservedMemory::reserve(weight_->nb[2], platform::MemoryUse::Reserved);
    ASSERT_TRUE(memory);
    const std::span<std::byte> bytes = memory->bytes().first(weight_->nb[2]);
    ASSERT_TRUE(store().read_weight(*store().find(weight_), 3 * weight_->nb[2], bytes));
    ggml_tensor *plain = ggml_new_tensor_2d(context_.get(), weight_->type, weight_->ne[0], weight_->ne[1]);
    ggml_set_input(plain);
    ggml_tensor *expected =
        ggml_mul_mat(context_.get(), plain, ggml_reshape_2d(context_.get(), input_, weight_->ne[0], 2));
    const std::unique_ptr<ggml_backend_buffer, Free> buffer(
        ggml_backend_cpu_buffer_from_ptr(bytes.data(), bytes.size()));
    plain->data = bytes.data();
    plain->buffer = buffer.get();
    const std::unique_ptr<ggml_backend, Free> cpu(ggml_backend_cpu_init());
    ASSERT_EQ(compute(expected, {}, cpu.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(streamed, values(expected));
}

TEST_F(OwnGraph, ModelStaysIdenticalAfterAWeightWasBroughtIn) {
    const std::vector<float> stock = run_stock({.model = path_});
    EXPECT_EQ(run_session(*model_, {}), stock);
    ggml_tensor *slice =
        ggml_view_2d(context_.get(), weight_, weight_->ne[0], weight_->ne[1], weight_->nb[1], 0);
    ggml_tensor *product =
        ggml_mul_mat(context_.get(), slice, ggml_reshape_2d(context_.get(), input_, weight_->ne[0], 2));
    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().counters.materialized, 1U);
    EXPECT_EQ(run_session(*model_, {}), stock);
}

TEST_F(OwnGraph, ExpertsOfAnyGraphAreStreamed) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    const uint64_t before = store().cache()->counters().misses;
    ASSERT_EQ(compute(product, {1, 2, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().cache()->counters().misses - before, 3U) << "experts 1, 2 and 5";
    EXPECT_EQ(store().counters.materialized, 0U);
}

/// On a bank that llama.cpp loads and uses in no graph: the cache was made without slots for it.
class OwnGraphOnIdleExperts : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-idle"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U},
             streaming::Role::Experts);
        for (const auto &[name, tensor] : llama_internal_get_tensor_map(model_->state().llama.get())) {
            const streaming::StreamedTensor *found = store().find(tensor);
            if (found != nullptr && found->role == streaming::Role::Experts &&
                !store().cache()->has_slots(found->index) && tensor->ne[0] == weight_->ne[0]) {
                idle_ = tensor;
            }
        }
        ASSERT_NE(idle_, nullptr);
    }
    ggml_tensor *idle_ = nullptr;
};

TEST_F(OwnGraphOnIdleExperts, ModelIsIdenticalToStock) {
    EXPECT_EQ(run_session(*model_, {}), run_stock({.model = path_}));
    EXPECT_EQ(store().counters.materialized, 0U);
}

TEST_F(OwnGraphOnIdleExperts, BankIsBroughtInWholeIfAGraphUsesItAfterAll) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), idle_, input_, ids_);
    testing::internal::CaptureStderr();
    ASSERT_EQ(compute(product, {1, 2, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("because no graph used it when the expert cache was made"), std::string::npos)
        << said;
    EXPECT_EQ(store().counters.materialized, 1U);
    const std::vector<float> products = values(product);
    EXPECT_TRUE(std::any_of(products.begin(), products.end(), [](float value) { return value != 0; }));
}

/// Tensors of a context, all in one buffer.
std::unique_ptr<ggml_backend_buffer, Free> allocate(ggml_context *context, ggml_backend_buffer_usage usage) {
    std::unique_ptr<ggml_backend_buffer, Free> buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type()));
    ggml_backend_buffer_set_usage(buffer.get(), usage);
    return buffer;
}

// As in deepseek4's first layers: a table says which experts a token uses.
TEST_F(OwnGraph, LayerRoutedByTheTokenAloneIsReadAtTheStartOfTheGraph) {
    const ggml_init_params small{.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true};
    const std::unique_ptr<ggml_context, Free> weights(ggml_init(small));
    ggml_tensor *table = ggml_new_tensor_2d(weights.get(), GGML_TYPE_I32, 2, 3);
    const auto weight_buffer = allocate(weights.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    const std::vector<int32_t> experts_by_token{0, 1, 2, 3, 5, 4};
    std::memcpy(table->data, experts_by_token.data(), experts_by_token.size() * sizeof(int32_t));
    const std::unique_ptr<ggml_context, Free> inputs(ggml_init(small));
    ggml_tensor *token = ggml_new_tensor_1d(inputs.get(), GGML_TYPE_I32, 1);
    ggml_set_input(token);
    const auto input_buffer = allocate(inputs.get(), GGML_BACKEND_BUFFER_USAGE_ANY);
    *static_cast<int32_t *>(token->data) = 2;

    ggml_tensor *activations =
        ggml_view_3d(context_.get(), input_, weight_->ne[0], 1, 1, input_->nb[1], input_->nb[2], 0);
    ggml_tensor *hashed = ggml_mul_mat_id(context_.get(), weight_, ggml_scale(context_.get(), activations, 2),
                                          ggml_get_rows(context_.get(), table, token));
    const residency::ExpertCounters before = store().cache()->counters();
    ASSERT_EQ(compute(hashed, {}, backend_.get()), GGML_STATUS_SUCCESS);
    const residency::ExpertCounters after = store().cache()->counters();
    EXPECT_EQ(after.prefetched - before.prefetched, 2U) << "experts 5 and 4";
    EXPECT_EQ(after.hits - before.hits, 2U);
    EXPECT_EQ(after.misses - before.misses, 0U) << "both were read before the layer asked for them";
    const std::vector<float> streamed = values(hashed);

    ggml_tensor *ids = ggml_view_2d(context_.get(), ids_, 2, 1, ids_->nb[1], 0);
    ggml_tensor *chosen =
        ggml_mul_mat_id(context_.get(), weight_, ggml_scale(context_.get(), activations, 2), ids);
    ASSERT_EQ(compute(chosen, {5, 4, 0, 0}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(streamed, values(chosen));
}

class OwnSubstitutingGraph : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-qwen3moe", "q8_0"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U,
              .lookahead = 0, // scores that are an input would be certain
              .lossy = {.substitute = 0.5F}},
             streaming::Role::Experts);
    }
};

// Routers that choose among groups of experts give those of all other groups a score of minus infinity.
TEST_F(OwnSubstitutingGraph, ExpertsThatTheRouterRuledOutTakeNobodysPlace) {
    const int64_t experts = weight_->ne[2];
    const std::unique_ptr<ggml_context, Free> inputs(
        ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true}));
    ggml_tensor *scores = ggml_new_tensor_2d(inputs.get(), GGML_TYPE_F32, experts, 1);
    ggml_set_input(scores);
    const auto buffer = allocate(inputs.get(), GGML_BACKEND_BUFFER_USAGE_ANY);
    for (int64_t expert = 0; expert < experts; ++expert) {
        static_cast<float *>(scores->data)[expert] =
            expert < 8 ? 1.0F - 0.01F * static_cast<float>(expert) : -std::numeric_limits<float>::infinity();
    }
    ggml_tensor *activations =
        ggml_view_3d(context_.get(), input_, weight_->ne[0], 1, 1, input_->nb[1], input_->nb[2], 0);
    const auto choose = [&](std::vector<int32_t> ids) {
        ggml_tensor *given = ggml_view_2d(context_.get(), ids_, 2, 1, ids_->nb[1], 0);
        ids.resize(4);
        EXPECT_EQ(compute(ggml_mul_mat_id(context_.get(), weight_, activations, given), ids, backend_.get()),
                  GGML_STATUS_SUCCESS);
    };
    const auto route = [&] {
        ggml_tensor *order = ggml_argsort(context_.get(), scores, GGML_SORT_ORDER_DESC);
        ggml_tensor *top = ggml_view_2d(context_.get(), order, 2, 1, order->nb[1], 0);
        EXPECT_EQ(compute(ggml_mul_mat_id(context_.get(), weight_, activations, top), {}, backend_.get()),
                  GGML_STATUS_SUCCESS);
    };
    choose({8, 2}); // 8 is ruled out
    route();
    EXPECT_EQ(store().counters.substituted_experts, 1U) << "2 for 1, and nothing for 0";
}

TEST_F(OwnGraph, RouterThatChoosesNoExpertOfTheBankFailsTheGraphOnly) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    for (const int32_t wrong : {-1, static_cast<int32_t>(weight_->ne[2])}) {
        EXPECT_EQ(compute(product, {1, 2, wrong, 5}, backend_.get()), GGML_STATUS_FAILED);
        const auto error = streaming::take_backend_error(backend_.get());
        ASSERT_TRUE(error);
        EXPECT_NE(error->message.find("the router chose expert " + std::to_string(wrong)), std::string::npos)
            << error->message;
        EXPECT_EQ(values(product), std::vector<float>(static_cast<size_t>(ggml_nelements(product)), 0.0F))
            << "what was not computed must not be left as it was";
    }
    EXPECT_EQ(compute(product, {1, 2, 3, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_FALSE(streaming::take_backend_error(backend_.get()));
}

} // namespace
} // namespace sluice::test
