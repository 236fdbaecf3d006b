#include "streaming/graph/overlap.h"

#include "ggml-backend.h"
#include "ggml-impl.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace sluice::streaming {

namespace {

class Mover {
public:
    Mover(ggml_cgraph *graph, StreamedStore &store) : graph_(graph), store_(store) {}

    size_t run() {
        size_t moved = 0;
        const ggml_tensor *ids = nullptr;
        for (int i = 0; i < graph_->n_nodes; ++i) {
            if (is_expert_matmul(graph_->nodes[i]) && graph_->nodes[i]->src[2] != ids) {
                ids = graph_->nodes[i]->src[2];
                const size_t count = bring_before(i);
                moved += count;
                i += static_cast<int>(count);
            }
        }
        return moved;
    }

private:
    bool is_expert_matmul(const ggml_tensor *node) {
        if (node->op != GGML_OP_MUL_MAT_ID) {
            return false;
        }
        const StreamedTensor *weight = store_.find(node->src[0]);
        return weight != nullptr && weight->role == Role::Experts;
    }

    /// Whether reading `source` gives the same at any time once what computes it has run.
    bool is_constant(const ggml_tensor *source) {
        const ggml_tensor *root = view_root(source);
        if (root->op != GGML_OP_NONE || (root->flags & GGML_TENSOR_FLAG_INPUT) != 0) {
            return true;
        }
        const StreamedTensor *streamed = store_.find(root);
        const bool is_weight = root->buffer != nullptr && ggml_backend_buffer_get_usage(root->buffer) ==
                                                              GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
        return is_weight && (streamed == nullptr || streamed->role == Role::Dense);
    }

    /// Whether the node may run earlier, as far as those in `staying` let it.
    bool can_move(const ggml_tensor *node, const std::unordered_set<const ggml_tensor *> &staying) {
        if (node->view_src != nullptr && !only_describes(node->op)) {
            return false; // it writes to another's memory
        }
        return std::all_of(std::begin(node->src), std::end(node->src), [&](const ggml_tensor *source) {
            return source == nullptr ||
                   (!staying.contains(source) && !staying.contains(view_root(source)) && is_constant(source));
        });
    }

    /// Looks from the matmul at `first` to the next decision's.
    size_t bring_before(int first) {
        const ggml_tensor *ids = graph_->nodes[first]->src[2];
        std::unordered_set<const ggml_tensor *> staying;
        std::vector<ggml_tensor *> moving;
        std::vector<ggml_tensor *> rest;
        int end = first;
        for (; end < graph_->n_nodes; ++end) {
            ggml_tensor *node = graph_->nodes[end];
            const bool is_expert = is_expert_matmul(node);
            if (is_expert && node->src[2] != ids) {
                break;
            }
            if (!is_expert && can_move(node, staying)) {
                moving.push_back(node);
            } else {
                staying.insert(node);
                if (node->view_src != nullptr && !only_describes(node->op)) {
                    staying.insert(view_root(node)); // which it writes to
                }
                rest.push_back(node);
            }
        }
        const bool worth_it = std::any_of(moving.begin(), moving.end(), [](const ggml_tensor *node) {
            return node->op == GGML_OP_MUL_MAT;
        });
        if (!worth_it) {
            return 0;
        }
        std::copy(rest.begin(), rest.end(), std::copy(moving.begin(), moving.end(), graph_->nodes + first));
        return moving.size();
    }

    ggml_cgraph *graph_;
    StreamedStore &store_;
};

} // namespace

size_t bring_forward_independent_nodes(ggml_cgraph *graph, StreamedStore &store) {
    return Mover(graph, store).run();
}

} // namespace sluice::streaming
