// Graphs that llama.cpp does not build: streamed weights used otherwise, and routers gone wrong.

#include "storage/reserved_memory.h"
#include "support/gate_prompt.h"
#include "support/own_graph.h"

namespace sluice::test {
namespace {

class OwnGraph : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-qwen3moe", "q8_0"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U},
             backend::Role::Experts);
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
    const auto memory = storage::ReservedMemory::reserve(weight_->nb[2], storage::MemoryUse::Reserved);
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

TEST_F(OwnGraph, RouterThatChoosesNoExpertOfTheBankFailsTheGraphOnly) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    for (const int32_t wrong : {-1, static_cast<int32_t>(weight_->ne[2])}) {
        EXPECT_EQ(compute(product, {1, 2, wrong, 5}, backend_.get()), GGML_STATUS_FAILED);
        const auto error = backend::take_backend_error(backend_.get());
        ASSERT_TRUE(error);
        EXPECT_NE(error->message.find("the router chose expert " + std::to_string(wrong)), std::string::npos)
            << error->message;
        EXPECT_EQ(values(product), std::vector<float>(static_cast<size_t>(ggml_nelements(product)), 0.0F))
            << "what was not computed must not be left as it was";
    }
    EXPECT_EQ(compute(product, {1, 2, 3, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_FALSE(backend::take_backend_error(backend_.get()));
}

} // namespace
} // namespace sluice::test
