// Graphs that llama.cpp does not build: streamed weights used otherwise, and routers gone wrong.

#include "backend/intercepted_backend.h"
#include "backend/streaming_device.h"
#include "engine/model_state.h"
#include "storage/reserved_memory.h"
#include "support/gate.h"
#include "support/gate_prompt.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

// llama.cpp's own list of a model's tensors by name; exported, but in no header that is meant for others.
const std::vector<std::pair<std::string, ggml_tensor *>> &
llama_internal_get_tensor_map(const llama_model *model);

namespace sluice::test {
namespace {

struct Free {
    void operator()(ggml_backend *backend) const { ggml_backend_free(backend); }
    void operator()(ggml_context *context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer *buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_gallocr *allocator) const { ggml_gallocr_free(allocator); }
};

/// A streamed model, a session on it, and graphs of our own on its first expert bank.
class OwnGraph : public testing::Test {
protected:
    void SetUp() override {
        path_ = tiny_model("tiny-qwen3moe", "q8_0");
        auto model =
            Model::load({.path = path_, .stream = StreamMode::Force, .cache_bytes = uint64_t{64} << 20U});
        ASSERT_TRUE(model) << model.error().message;
        model_.emplace(std::move(*model));
        auto session = Session::create(*model_, {.context_tokens = 256, .threads = 2});
        ASSERT_TRUE(session) << session.error().message;
        session_.emplace(std::move(*session));
        for (const auto &[name, tensor] : llama_internal_get_tensor_map(model_->state().llama.get())) {
            if (bank_ == nullptr && store().find(tensor) != nullptr) {
                bank_ = tensor;
            }
        }
        ASSERT_NE(bank_, nullptr);
        backend_.reset(backend::make_intercepted_backend());
        context_.reset(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
        input_ = ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, bank_->ne[0], 1, 2);
        ids_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_I32, 2, 2);
        ggml_set_input(input_);
        ggml_set_input(ids_);
    }

    backend::StreamedStore &store() { return *model_->state().store; }

    /// Allocates and computes the graph of `output`, the input filled with a ramp and the ids as given.
    ggml_status compute(ggml_tensor *output, std::vector<int32_t> ids, ggml_backend_t backend) {
        ggml_cgraph *graph = ggml_new_graph(context_.get());
        ggml_build_forward_expand(graph, output);
        forget_memory(graph); // of an earlier run
        allocator_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
        EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator_.get(), graph));
        for (int64_t i = 0; i < ggml_nelements(input_); ++i) {
            static_cast<float *>(input_->data)[i] = 0.01F * static_cast<float>(i % 37) - 0.1F;
        }
        if (ids_->data != nullptr) {
            std::memcpy(ids_->data, ids.data(), ids.size() * sizeof(int32_t));
        }
        return ggml_backend_graph_compute(backend, graph);
    }

    void forget_memory(ggml_cgraph *graph) {
        const auto forget = [](ggml_tensor *tensor) {
            if (backend::store_of(tensor) == nullptr) {
                tensor->data = nullptr;
                tensor->buffer = nullptr;
            }
        };
        forget(input_);
        forget(ids_);
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            forget(ggml_graph_node(graph, i));
        }
    }

    std::vector<float> values(const ggml_tensor *tensor) {
        std::vector<float> copy(static_cast<size_t>(ggml_nelements(tensor)));
        std::memcpy(copy.data(), tensor->data, copy.size() * sizeof(float));
        return copy;
    }

    std::string path_;
    std::optional<Model> model_;
    std::optional<Session> session_;
    ggml_tensor *bank_ = nullptr;
    std::unique_ptr<ggml_backend, Free> backend_;
    std::unique_ptr<ggml_context, Free> context_;
    std::unique_ptr<ggml_gallocr, Free> allocator_;
    ggml_tensor *input_ = nullptr;
    ggml_tensor *ids_ = nullptr;
};

TEST_F(OwnGraph, WeightUsedOtherwiseIsBroughtInWholeOnceAndSaysSo) {
    // One expert's slice, multiplied like any dense weight.
    ggml_tensor *slice =
        ggml_view_2d(context_.get(), bank_, bank_->ne[0], bank_->ne[1], bank_->nb[1], 3 * bank_->nb[2]);
    ggml_tensor *product =
        ggml_mul_mat(context_.get(), slice, ggml_reshape_2d(context_.get(), input_, bank_->ne[0], 2));
    testing::internal::CaptureStderr();
    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(bank_->name), std::string::npos) << said;
    EXPECT_NE(said.find("MUL_MAT"), std::string::npos) << said;
    EXPECT_EQ(store().counters.materialized, 1U);
    const std::vector<float> streamed = values(product);

    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().counters.materialized, 1U);

    // The same on the slice's bytes read from the file, by a plain CPU backend.
    const auto memory = storage::ReservedMemory::reserve(bank_->nb[2], storage::MemoryUse::Reserved);
    ASSERT_TRUE(memory);
    const std::span<std::byte> bytes = memory->bytes().first(bank_->nb[2]);
    ASSERT_TRUE(store().read_weight(*store().find(bank_), 3 * bank_->nb[2], bytes));
    ggml_tensor *plain = ggml_new_tensor_2d(context_.get(), bank_->type, bank_->ne[0], bank_->ne[1]);
    ggml_set_input(plain);
    ggml_tensor *expected =
        ggml_mul_mat(context_.get(), plain, ggml_reshape_2d(context_.get(), input_, bank_->ne[0], 2));
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
    ggml_tensor *slice = ggml_view_2d(context_.get(), bank_, bank_->ne[0], bank_->ne[1], bank_->nb[1], 0);
    ggml_tensor *product =
        ggml_mul_mat(context_.get(), slice, ggml_reshape_2d(context_.get(), input_, bank_->ne[0], 2));
    ASSERT_EQ(compute(product, {}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().counters.materialized, 1U);
    EXPECT_EQ(run_session(*model_, {}), stock);
}

TEST_F(OwnGraph, ExpertsOfAnyGraphAreStreamed) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), bank_, input_, ids_);
    const uint64_t before = store().cache()->counters().misses;
    ASSERT_EQ(compute(product, {1, 2, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(store().cache()->counters().misses - before, 3U) << "experts 1, 2 and 5";
    EXPECT_EQ(store().counters.materialized, 0U);
}

TEST_F(OwnGraph, RouterThatChoosesNoExpertOfTheBankFailsTheGraphOnly) {
    ggml_tensor *product = ggml_mul_mat_id(context_.get(), bank_, input_, ids_);
    for (const int32_t wrong : {-1, static_cast<int32_t>(bank_->ne[2])}) {
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
