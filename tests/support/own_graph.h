// Graphs that llama.cpp does not build, on the weights of a streamed model.
#pragma once

#include "session/model_state.h"
#include "streaming/device/intercepted_backend.h"
#include "streaming/device/streaming_device.h"
#include "streaming/weights/streamed_buffer.h"
#include "support/gate.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// llama.cpp's own list of a model's tensors by name; exported, but in no header that is meant for others.
const std::vector<std::pair<std::string, ggml_tensor *>> &
llama_internal_get_tensor_map(const llama_model *model);

namespace sluice::test {
struct Free {
    void operator()(ggml_backend *backend) const { ggml_backend_free(backend); }
    void operator()(ggml_context *context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer *buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_gallocr *allocator) const { ggml_gallocr_free(allocator); }
};

/// A streamed model, a session on it, and graphs of our own on its first weight of one role.
class OwnGraphTest : public testing::Test {
protected:
    /// Loads the model and finds the weight. Call in SetUp().
    void load(const ModelOptions &options, streaming::Role role) {
        path_ = options.path;
        auto model = Model::load(options);
        ASSERT_TRUE(model) << model.error().message;
        model_.emplace(std::move(*model));
        auto session = Session::create(*model_, {.context_tokens = 256, .threads = 2});
        ASSERT_TRUE(session) << session.error().message;
        session_.emplace(std::move(*session));
        for (const auto &[name, tensor] : llama_internal_get_tensor_map(model_->state().llama.get())) {
            const streaming::StreamedTensor *found = store().find(tensor);
            if (weight_ == nullptr && found != nullptr && found->role == role) {
                weight_ = tensor;
            }
        }
        ASSERT_NE(weight_, nullptr);
        backend_.reset(streaming::make_intercepted_backend());
        ggml_backend_cpu_set_n_threads(backend_.get(), 2);
        context_.reset(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
        input_ = ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, weight_->ne[0], 1, 2);
        ids_ = ggml_new_tensor_2d(context_.get(), GGML_TYPE_I32, 2, 2);
        ggml_set_input(input_);
        ggml_set_input(ids_);
    }

    streaming::StreamedStore &store() { return *model_->state().streamed->store; }

    /// Allocates and computes the graph of `output`, the input filled with a ramp and the ids as given.
    ggml_status compute(ggml_tensor *output, std::vector<int32_t> ids, ggml_backend_t backend) {
        ggml_cgraph *graph = ggml_new_graph(context_.get());
        ggml_build_forward_expand(graph, output);
        forget_memory(graph); // of an earlier run
        allocator_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
        EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator_.get(), graph));
        for (int64_t i = 0; input_->data != nullptr && i < ggml_nelements(input_); ++i) {
            static_cast<float *>(input_->data)[i] = 0.01F * static_cast<float>(i % 37) - 0.1F;
        }
        if (ids_->data != nullptr) {
            std::memcpy(ids_->data, ids.data(), ids.size() * sizeof(int32_t));
        }
        return ggml_backend_graph_compute(backend, graph);
    }

    void forget_memory(ggml_cgraph *graph) {
        const auto forget = [](ggml_tensor *tensor) {
            if (streaming::store_of(tensor) == nullptr) {
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
    ggml_tensor *weight_ = nullptr;
    std::unique_ptr<ggml_backend, Free> backend_;
    std::unique_ptr<ggml_context, Free> context_;
    std::unique_ptr<ggml_gallocr, Free> allocator_;
    ggml_tensor *input_ = nullptr;
    ggml_tensor *ids_ = nullptr;
};

} // namespace sluice::test
