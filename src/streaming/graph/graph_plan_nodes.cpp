// What the nodes that a plan adds to a graph do when ggml computes them.
#include "streaming/compute/cache_time.h"
#include "streaming/graph/graph_plan.h"

#include <exception>
#include <fmt/format.h>
#include <new>

namespace sluice::streaming {

void GraphPlan::begin_experts(ggml_tensor *, int thread, int threads, void *context) {
    if (thread != 0) {
        return;
    }
    const NodeContext &node = *static_cast<NodeContext *>(context);
    const CacheTime time(node.plan->store_);
    try {
        node.plan->end_group();
        node.plan->active_ = node.group;
        node.group->begin(threads);
    } catch (...) {
        node.plan->give_up();
    }
}

void GraphPlan::guess_experts(ggml_tensor *, int thread, int, void *context) {
    const NodeContext &node = *static_cast<NodeContext *>(context);
    if (thread != 0) {
        return;
    }
    const CacheTime time(node.plan->store_);
    try {
        node.guess->make();
    } catch (...) {
        node.plan->give_up();
    }
}

void GraphPlan::choose_experts(ggml_tensor *, int thread, int, void *context) {
    if (thread == 0) {
        const NodeContext &node = *static_cast<NodeContext *>(context);
        const CacheTime time(node.plan->store_);
        try {
            node.choice->make();
        } catch (...) {
            node.plan->give_up();
        }
    }
}

void GraphPlan::convert(ggml_tensor *, int, int, void *context) {
    ExpertGroup::convert(*static_cast<NodeContext *>(context)->step);
}

void GraphPlan::give_up() {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        store_.set_error({ErrorCode::OutOfMemory, "out of memory while computing"});
    } catch (const std::exception &error) { // of whoever was told or asked about routes
        store_.set_error(
            {ErrorCode::Internal, fmt::format("the computation was stopped by: {}", error.what())});
    } catch (...) {
        store_.set_error({ErrorCode::Internal, "the computation was stopped by an exception"});
    }
    if (store_.cache() != nullptr) {
        store_.cache()->wake_waiters();
    }
}

void GraphPlan::compute(ggml_tensor *, int, int threads, void *context) {
    const NodeContext &node = *static_cast<NodeContext *>(context);
    try {
        node.group->run(*node.step, threads);
    } catch (...) {
        node.plan->give_up();
    }
}

void GraphPlan::unstage(ggml_tensor *, int thread, int, void *context) {
    if (thread == 0) {
        const NodeContext &node = *static_cast<NodeContext *>(context);
        const CacheTime time(node.plan->store_);
        ++node.plan->store_.counters.staged_steps;
        ExpertGroup::unstage(*node.step);
    }
}

/// Where indices are inputs of the graph, reads begin long before the gather needs them.
void GraphPlan::start_rows(ggml_tensor *, int thread, int, void *context) {
    GraphPlan &plan = *static_cast<NodeContext *>(context)->plan;
    if (thread != 0) {
        return;
    }
    const CacheTime time(plan.store_);
    try {
        for (const auto &gather : plan.gathers_) {
            if (gather->known_at_start()) {
                gather->start();
            }
        }
    } catch (...) {
        plan.give_up();
    }
}

void GraphPlan::fetch_rows(ggml_tensor *, int thread, int, void *context) {
    const NodeContext &node = *static_cast<NodeContext *>(context);
    if (thread != 0) {
        node.rows->wait_fetched();
        return;
    }
    try {
        node.rows->fetch();
    } catch (...) {
        node.plan->give_up();
        node.rows->give_up();
    }
}

void GraphPlan::release_rows(ggml_tensor *, int thread, int, void *context) {
    if (thread == 0) {
        const NodeContext &node = *static_cast<NodeContext *>(context);
        const CacheTime time(node.plan->store_);
        node.rows->release();
    }
}

} // namespace sluice::streaming
