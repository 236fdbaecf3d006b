#include "streaming/graph/router.h"

#include "ggml-backend.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>
#include <unordered_set>

namespace sluice::streaming {

namespace {

// A decision is a handful of operations; whatever is larger is more than a router.
constexpr size_t kMostNodes = 64;

bool is_weight(const ggml_tensor *tensor) {
    return tensor->op == GGML_OP_NONE && tensor->buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

class Search {
public:
    explicit Search(StreamedStore &store) : store_(store) {}

    /// Visits what `tensor` depends on, then itself. False if it is not part of a router.
    bool visit(ggml_tensor *tensor) {
        if (!seen_.insert(tensor).second) {
            return true;
        }
        if (tensor->op == GGML_OP_NONE) {
            return leaf(tensor);
        }
        if (router_.nodes.size() >= kMostNodes) {
            return false;
        }
        const bool is_matmul = tensor->op == GGML_OP_MUL_MAT && is_weight(view_root(tensor->src[0])) &&
                               !is_graph_input(tensor->src[1]);
        if (is_matmul) {
            if (router_.activations != nullptr || !leaf(view_root(tensor->src[0]))) {
                return false;
            }
            router_.activations = tensor->src[1];
        } else {
            for (ggml_tensor *source : tensor->src) {
                if (source != nullptr && !visit(source)) {
                    return false;
                }
            }
        }
        router_.nodes.push_back(tensor);
        return true;
    }

    /// The router, if the search went well.
    std::optional<Router> result() {
        return inputs_ && router_.activations != nullptr ? std::nullopt : std::optional(std::move(router_));
    }

private:
    bool leaf(const ggml_tensor *tensor) {
        if ((tensor->flags & GGML_TENSOR_FLAG_INPUT) != 0) {
            inputs_ = true;
            return true;
        }
        if (!is_weight(tensor)) {
            return false; // state from earlier graphs
        }
        const StreamedTensor *streamed = store_.find(tensor);
        return streamed == nullptr || streamed->role == Role::Dense || streamed->materialized;
    }

    StreamedStore &store_;
    Router router_;
    std::unordered_set<const ggml_tensor *> seen_;
    bool inputs_ = false;
};

} // namespace

std::optional<Router> find_router(ggml_tensor *ids, StreamedStore &store) {
    Search search(store);
    if (ids->type != GGML_TYPE_I32 || !search.visit(ids)) {
        return std::nullopt;
    }
    return search.result();
}

std::unique_ptr<RouterCopy> RouterCopy::create(const Router &router, ggml_tensor *activations) {
    const bool replaces = router.activations != nullptr;
    if (replaces && (activations == nullptr || !ggml_are_same_shape(activations, router.activations) ||
                     activations->type != router.activations->type ||
                     ggml_is_contiguous(activations) != ggml_is_contiguous(router.activations))) {
        return nullptr;
    }
    size_t bytes = 0;
    for (const ggml_tensor *node : router.nodes) {
        bytes += ggml_tensor_overhead() + ggml_nbytes(node) + GGML_MEM_ALIGN;
    }
    auto copy = std::make_unique<RouterCopy>();
    copy->context_.reset(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = false}));
    if (copy->context_ == nullptr) {
        return nullptr;
    }
    std::unordered_map<const ggml_tensor *, ggml_tensor *> copy_of;
    if (replaces) {
        copy_of[router.activations] = activations;
    }
    const auto mapped = [&copy_of](ggml_tensor *tensor) {
        const auto found = copy_of.find(tensor);
        return found == copy_of.end() ? tensor : found->second;
    };
    for (const ggml_tensor *node : router.nodes) {
        ggml_tensor *twin = nullptr;
        if (node->view_src != nullptr) {
            twin = ggml_view_tensor(copy->context_.get(), mapped(node->view_src));
            twin->data = static_cast<char *>(mapped(node->view_src)->data) + node->view_offs;
            twin->view_offs = node->view_offs;
        } else {
            twin = ggml_dup_tensor(copy->context_.get(), node);
        }
        twin->op = node->op;
        twin->type = node->type;
        std::copy(std::begin(node->ne), std::end(node->ne), twin->ne);
        std::copy(std::begin(node->nb), std::end(node->nb), twin->nb);
        std::memcpy(twin->op_params, node->op_params, sizeof(node->op_params));
        std::transform(std::begin(node->src), std::end(node->src), twin->src, [&mapped](ggml_tensor *source) {
            return source == nullptr ? nullptr : mapped(source);
        });
        ggml_format_name(twin, "%s (guess)", node->name);
        copy_of[node] = twin;
        copy->nodes_.push_back(twin);
    }
    return copy;
}

void RouterCopy::set_computed(bool computed) {
    for (ggml_tensor *node : nodes_) {
        node->flags = computed ? node->flags | GGML_TENSOR_FLAG_COMPUTE
                               : node->flags & ~static_cast<int32_t>(GGML_TENSOR_FLAG_COMPUTE);
    }
}

std::span<const int32_t> RouterCopy::choice(size_t count) const {
    const ggml_tensor *root = view_root(nodes_.back());
    return {static_cast<const int32_t *>(root->data), std::min(count, static_cast<size_t>(root->ne[0]))};
}

} // namespace sluice::streaming
