// What happens to streamed weights by ways that llama.cpp's own graphs do not take: ggml's graph plans, other
// backends, and whoever reads or writes a weight's bytes.
#include "support/own_graph.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>

namespace sluice::test {
namespace {

class StreamedWeights : public OwnGraphTest {
protected:
    void SetUp() override {
        testing::GTEST_FLAG(death_test_style) = "threadsafe";
        copy_ = scratch_path("weights.gguf");
        std::filesystem::copy_file(tiny_model("tiny-qwen3moe", "q8_0"), copy_,
                                   std::filesystem::copy_options::overwrite_existing);
        load({.path = copy_, .stream = StreamMode::Force, .cache_bytes = uint64_t{64} << 20U},
             streaming::Role::Experts);
        product_ = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    }
    void TearDown() override { std::filesystem::remove(copy_); }

    std::vector<float> products_of(std::vector<int32_t> experts) {
        EXPECT_EQ(compute(product_, std::move(experts), backend_.get()), GGML_STATUS_SUCCESS);
        return values(product_);
    }

    std::string copy_;
    ggml_tensor *product_ = nullptr;
};

TEST_F(StreamedWeights, AreFetchedForAGraphPlanToo) {
    const std::vector<float> expected = products_of({1, 2, 2, 5});
    ggml_cgraph *graph = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph, product_);
    const uint64_t before = store().counters.graphs;
    ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(backend_.get(), graph);
    ASSERT_NE(plan, nullptr);
    for (int round = 0; round < 2; ++round) {
        std::memset(product_->data, 0, ggml_nbytes(product_));
        ASSERT_EQ(ggml_backend_graph_plan_compute(backend_.get(), plan), GGML_STATUS_SUCCESS);
        EXPECT_EQ(values(product_), expected);
    }
    ggml_backend_graph_plan_free(backend_.get(), plan);
    EXPECT_EQ(store().counters.graphs - before, 2U);
}

TEST_F(StreamedWeights, CannotBeReadByABackendThatFetchesNothing) {
    const std::unique_ptr<ggml_backend, Free> cpu(ggml_backend_cpu_init());
    EXPECT_DEATH(compute(product_, {1, 2, 2, 5}, cpu.get()), "nothing had been fetched");
}

TEST_F(StreamedWeights, CannotBeReadByABackendThatFetchesNothingAfterABatchEither) {
    std::vector<int32_t> prompt(64);
    ASSERT_TRUE(session_->decode(prompt)); // stock's kernel multiplied staged weights
    const std::unique_ptr<ggml_backend, Free> cpu(ggml_backend_cpu_init());
    EXPECT_DEATH(compute(product_, {1, 2, 2, 5}, cpu.get()), "nothing had been fetched");
}

TEST_F(StreamedWeights, AreWhatWasWrittenToThem) {
    const std::vector<float> before = products_of({1, 2, 2, 5});
    std::vector<std::byte> slice(weight_->nb[2]);
    ggml_backend_tensor_get(weight_, slice.data(), 2 * weight_->nb[2], slice.size());
    ggml_backend_tensor_set(weight_, slice.data(), 1 * weight_->nb[2], slice.size());
    const auto row = static_cast<ptrdiff_t>(product_->ne[0]);
    const std::vector<float> after = products_of({1, 2, 2, 5});
    EXPECT_TRUE(std::equal(after.begin(), after.begin() + row, after.begin() + row)) << "two equal experts";
    EXPECT_TRUE(std::equal(before.begin() + row, before.end(), after.begin() + row))
        << "the others as before";
    std::vector<std::byte> read(slice.size());
    ggml_backend_tensor_get(weight_, read.data(), 1 * weight_->nb[2], read.size());
    EXPECT_EQ(read, slice);
}

TEST_F(StreamedWeights, ThatCannotBeReadAreNoNumbersAndAnError) {
    std::filesystem::resize_file(copy_, 4096);
    std::vector<std::byte> slice(weight_->nb[2], std::byte{1});
    ggml_backend_tensor_get(weight_, slice.data(), 0, slice.size());
    EXPECT_THAT(slice, testing::Each(std::byte{0xFF}));
    const auto error = model_->state().streamed->store->last_error();
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, testing::HasSubstr(weight_->name));
}

TEST_F(StreamedWeights, ThatCannotBeWrittenToStopTheModel) {
    std::filesystem::resize_file(copy_, 4096); // what is not overwritten could not be brought in
    std::vector<std::byte> slice(weight_->nb[2]);
    ggml_backend_tensor_set(weight_, slice.data(), 0, slice.size());
    EXPECT_NE(compute(product_, {1, 2, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    const Status decoded = session_->decode(std::vector<int32_t>{1});
    ASSERT_FALSE(decoded);
    EXPECT_THAT(decoded.error().message, testing::HasSubstr("somebody wrote to a weight"))
        << decoded.error().message;
}

} // namespace
} // namespace sluice::test
