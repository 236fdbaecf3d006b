#include "streaming/graph/node_trace.h"

#include "streaming/weights/streamed_store.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace sluice::streaming {

namespace {

using Clock = std::chrono::steady_clock;

/// The end of the nodes first..last, which the node after them notes.
struct Mark {
    int first = 0;
    int last = 0;
    bool reached = false;
    Clock::time_point when;
};

void note(ggml_tensor *, int thread, int, void *mark) {
    if (thread == 0) { // all have passed the barrier behind the node before
        static_cast<Mark *>(mark)->when = Clock::now();
        static_cast<Mark *>(mark)->reached = true;
    }
}

/// How many nodes from `index` on ggml computes as one. Its CPU backend knows one such pair.
int fused_from(const ggml_cgraph *graph, int index) {
    return ggml_can_fuse(graph, index, {GGML_OP_RMS_NORM, GGML_OP_MUL}) ? 2 : 1;
}

bool is_computed(const ggml_tensor *node) {
    return !only_describes(node->op) && (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
}

std::string op_of(const ggml_cgraph *graph, const Mark &mark) {
    std::string op = ggml_op_name(graph->nodes[mark.first]->op);
    for (int i = mark.first + 1; i <= mark.last; ++i) {
        op += std::string("+") + ggml_op_name(graph->nodes[i]->op);
    }
    return op;
}

} // namespace

ggml_status compute_traced(ggml_backend_t inner, const ggml_cgraph *graph, const NodeSink &sink) {
    const auto most = static_cast<size_t>(graph->n_nodes) + 1;
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
        ggml_init({.mem_size = ggml_tensor_overhead() * most, .mem_buffer = nullptr, .no_alloc = true}),
        &ggml_free);
    if (context == nullptr) {
        throw std::bad_alloc();
    }
    std::vector<Mark> marks;
    std::vector<ggml_tensor *> nodes;
    marks.reserve(most); // their addresses are given away
    nodes.reserve(2 * most);
    float placeholder = 0;
    const auto add_mark = [&](int first, int last) {
        marks.push_back({.first = first, .last = last, .reached = false, .when = {}});
        ggml_tensor *node = ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, note,
                                           GGML_N_TASKS_MAX, &marks.back());
        node->data = &placeholder;
        node->flags |= GGML_TENSOR_FLAG_COMPUTE;
        nodes.push_back(node);
    };
    add_mark(-1, -1);
    for (int i = 0; i < graph->n_nodes;) {
        const int count = is_computed(graph->nodes[i]) ? fused_from(graph, i) : 0;
        nodes.insert(nodes.end(), graph->nodes + i, graph->nodes + i + std::max(count, 1));
        if (count > 0) {
            add_mark(i, i + count - 1);
        }
        i += std::max(count, 1);
    }
    ggml_cgraph traced = *graph; // same leafs and use counts: ggml's fused operations decide by them
    traced.nodes = nodes.data();
    traced.n_nodes = static_cast<int>(nodes.size());
    traced.size = traced.n_nodes;
    const ggml_status status = inner->iface.graph_compute(inner, &traced);
    for (size_t i = 1; i < marks.size() && marks[i].reached; ++i) {
        const std::string op = op_of(graph, marks[i]);
        sink({.index = marks[i].first,
              .op = op,
              .name = graph->nodes[marks[i].last]->name,
              .seconds = std::chrono::duration<double>(marks[i].when - marks[i - 1].when).count()});
    }
    return status;
}

} // namespace sluice::streaming
