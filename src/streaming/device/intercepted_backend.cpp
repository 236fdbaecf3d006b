#include "streaming/device/intercepted_backend.h"

#include "base/notice.h"
#include "streaming/compute/step_clock.h"
#include "streaming/device/streaming_device.h"
#include "streaming/graph/graph_plan.h"
#include "streaming/graph/overlap.h"
#include "streaming/runtime/stream_runtime.h"
#include "streaming/weights/streamed_buffer.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace sluice::streaming {

namespace {

// llama.cpp alternates between a prompt graph and a token graph; more than a few are never alive together.
constexpr size_t kPlansKept = 4;

/// Shares the inner backend's context, so every ggml_backend_cpu_* call on it reaches the inner one.
struct InterceptedBackend : ggml_backend {
    ggml_backend_t inner = nullptr;
    PlanCache plans{kPlansKept};
    std::optional<Error> error; ///< of the last graph
    GraphTotals totals;
    int most_threads = 0; ///< that the runtime may choose from; 0: it may not
    NodeSink node_sink;   ///< empty: nodes are not traced
};

InterceptedBackend &self(ggml_backend_t backend) {
    return *static_cast<InterceptedBackend *>(backend);
}

void free_backend(ggml_backend_t backend) {
    const std::unique_ptr<InterceptedBackend> owned(&self(backend));
    ggml_backend_free(owned->inner);
}

/// The store of the first streamed weight in the graph, null if there is none. A context has one model.
StreamedStore *store_in(const ggml_cgraph *graph) {
    for (int i = 0; i < graph->n_nodes; ++i) {
        for (const ggml_tensor *source : graph->nodes[i]->src) {
            if (source != nullptr) {
                if (StreamedStore *store = store_of(source)) {
                    return store;
                }
            }
        }
    }
    return nullptr;
}

/// Adds to a backend's totals what its store counts while this lives, under the store's compute lock.
class GraphMeter {
public:
    GraphMeter(const StreamedStore &store, GraphTotals &totals)
        : store_(store), totals_(totals), before_(snapshot(store)) {}
    ~GraphMeter() {
        const GraphTotals after = snapshot(store_);
        for (const auto field : {&GraphTotals::expert_wait_nanoseconds, &GraphTotals::row_wait_nanoseconds,
                                 &GraphTotals::cache_nanoseconds}) {
            totals_.*field += after.*field - before_.*field;
        }
        using Experts = residency::ExpertCounters;
        for (const auto field :
             {&Experts::hits, &Experts::misses, &Experts::evictions, &Experts::rereads, &Experts::prefetched,
              &Experts::prefetched_bytes, &Experts::bytes_read, &Experts::errors}) {
            totals_.experts.*field += after.experts.*field - before_.experts.*field;
        }
        using Rows = residency::RowCounters;
        for (const auto field :
             {&Rows::rows, &Rows::reads, &Rows::bytes_read, &Rows::evictions, &Rows::errors}) {
            totals_.rows.*field += after.rows.*field - before_.rows.*field;
        }
    }
    GraphMeter(const GraphMeter &) = delete;
    GraphMeter &operator=(const GraphMeter &) = delete;

private:
    static GraphTotals snapshot(const StreamedStore &store) {
        return {.expert_wait_nanoseconds = store.counters.stall_nanoseconds,
                .row_wait_nanoseconds = store.counters.row_stall_nanoseconds,
                .cache_nanoseconds = store.counters.cache_nanoseconds,
                .experts = store.cache() != nullptr ? store.cache()->counters() : residency::ExpertCounters(),
                .rows = store.rows() != nullptr ? store.rows()->counters() : residency::RowCounters()};
    }

    const StreamedStore &store_;
    GraphTotals &totals_;
    const GraphTotals before_;
};

/// Lets ggml compute, and counts what it took that the store does not count as waiting or managing.
ggml_status compute(InterceptedBackend &backend, ggml_cgraph *graph, StoreCounters *counters) {
    const auto held_up = [counters]() -> uint64_t {
        return counters == nullptr ? 0
                                   : counters->stall_nanoseconds + counters->row_stall_nanoseconds +
                                         counters->cache_nanoseconds;
    };
    const uint64_t before = held_up();
    const auto start = Clock::now();
    const ggml_status status = backend.node_sink ? compute_traced(backend.inner, graph, backend.node_sink)
                                                 : backend.inner->iface.graph_compute(backend.inner, graph);
    const uint64_t taken = nanoseconds_since(start);
    const uint64_t computing = taken - std::min(taken, held_up() - before);
    backend.totals.compute_nanoseconds += computing;
    if (counters != nullptr) {
        counters->compute_nanoseconds += computing;
    }
    return status;
}

/// Keeps why the graph failed, for this backend and for its model. Whoever made the context sees a code only,
/// so the log has it as well.
ggml_status fail_graph(InterceptedBackend &backend, StreamedStore &store, Error error) {
    GGML_LOG_ERROR("sluice: %s\n", error.message.c_str());
    store.note_last_error(error);
    const bool no_memory = error.code == ErrorCode::OutOfMemory;
    backend.error = std::move(error);
    return no_memory ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

Result<GraphPlan *> prepare(InterceptedBackend &backend, GraphPlan *plan, const ggml_cgraph *graph,
                            StreamedStore &store) {
    if (store.refusal()) {
        return fail(*store.refusal());
    }
    if (store.runtime != nullptr) {
        if (auto ready = store.runtime->before_graph(graph); !ready) {
            return fail(ready.error());
        }
    }
    if (plan == nullptr || plan->is_outdated()) {
        auto built = GraphPlan::build(graph, store);
        if (!built) {
            return fail(built.error());
        }
        plan = backend.plans.keep(std::move(*built));
    }
    if (store.runtime != nullptr) {
        if (const int threads = store.runtime->begin(plan->tokens(), backend.most_threads); threads > 0) {
            ggml_backend_cpu_set_n_threads(backend.inner, threads);
        }
    }
    return plan;
}

ggml_status run_streamed(InterceptedBackend &backend, GraphPlan *known, ggml_cgraph *graph,
                         StreamedStore &store) {
    const GraphMeter meter(store, backend.totals);
    store.take_error(); // each graph starts without another's
    const auto plan = prepare(backend, known, graph, store);
    if (!plan) {
        return fail_graph(backend, store, plan.error());
    }
    ++store.counters.graphs;
    ggml_status status = GGML_STATUS_ALLOC_FAILED;
    if (auto opened = (*plan)->open_staged(); opened) {
        status = compute(backend, (*plan)->rewritten(), &store.counters);
    } else {
        store.set_error(opened.error());
    }
    (*plan)->finish();
    ++store.counters.graphs_ended;
    auto error = store.take_error();
    if (!error && status == GGML_STATUS_SUCCESS) {
        auto &tokens = (*plan)->all_have_logits() ? store.counters.tokens : store.counters.prompt_tokens;
        tokens += static_cast<uint64_t>((*plan)->tokens());
    }
    if (store.runtime != nullptr) {
        store.runtime->after_graph(!error && status == GGML_STATUS_SUCCESS);
    }
    if (!error) {
        backend.error.reset();
        return status;
    }
    if (store.cache() != nullptr) {
        store.cache()->wait_idle(); // the next graph must not meet reads that failed on account of this one
    }
    fail_graph(backend, store, std::move(*error));
    return GGML_STATUS_FAILED;
}

ggml_status run(InterceptedBackend &backend, ggml_cgraph *graph) {
    GraphPlan *plan = backend.plans.find(graph);
    StreamedStore *store = plan != nullptr ? &plan->store() : store_in(graph);
    if (store == nullptr) {
        return compute(backend, graph, nullptr);
    }
    const std::lock_guard lock(store->compute_mutex);
    try {
        return run_streamed(backend, plan, graph, *store);
    } catch (const std::bad_alloc &) {
        return fail_graph(backend, *store, {ErrorCode::OutOfMemory, "out of memory while planning a graph"});
    }
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph *graph) {
    try {
        return run(self(backend), graph);
    } catch (const std::exception &error) {
        GGML_LOG_ERROR("sluice: %s\n", error.what());
        return GGML_STATUS_FAILED;
    }
}

/// ggml's CPU backend would compute what was planned itself, and meet weights that nobody fetched: a plan of
/// ours is the graph, and computing it is graph_compute().
ggml_backend_graph_plan_t graph_plan_create(ggml_backend_t, const ggml_cgraph *graph) {
    return new (std::nothrow) ggml_cgraph(*graph);
}

void graph_plan_free(ggml_backend_t, ggml_backend_graph_plan_t plan) {
    delete static_cast<ggml_cgraph *>(plan);
}

ggml_status graph_plan_compute(ggml_backend_t backend, ggml_backend_graph_plan_t plan) {
    return plan == nullptr ? GGML_STATUS_ALLOC_FAILED
                           : graph_compute(backend, static_cast<ggml_cgraph *>(plan));
}

/// Called for every graph that llama.cpp reserves or allocates, before it gets memory.
void graph_optimize(ggml_backend_t, ggml_cgraph *graph, ggml_backend_graph_optimize_params *) {
    try {
        StreamedStore *store = store_in(graph);
        if (store != nullptr && (store->rows() != nullptr || store->cache() == nullptr)) {
            store->observe(graph);
        }
        if (store != nullptr && store->has_banks() && store->overlaps()) {
            store->counters.nodes_brought_forward += bring_forward_independent_nodes(graph, *store);
        }
    } catch (const std::exception &error) {
        notice(error.what());
    }
}

} // namespace

const GraphTotals &backend_totals(ggml_backend_t backend) {
    return self(backend).totals;
}

void trace_nodes(ggml_backend_t backend, NodeSink sink) {
    self(backend).node_sink = std::move(sink);
}

void let_choose_threads(ggml_backend_t backend, int most) {
    self(backend).most_threads = most;
}

std::optional<Error> take_backend_error(ggml_backend_t backend) {
    return std::exchange(self(backend).error, std::nullopt);
}

ggml_backend_t make_intercepted_backend() {
    try {
        ggml_backend_t inner = ggml_backend_cpu_init();
        if (inner == nullptr) {
            return nullptr;
        }
        auto backend = std::make_unique<InterceptedBackend>();
        static_cast<ggml_backend &>(*backend) = *inner;
        backend->inner = inner;
        backend->iface.free = free_backend;
        backend->iface.graph_plan_create = graph_plan_create;
        backend->iface.graph_plan_free = graph_plan_free;
        backend->iface.graph_plan_update = nullptr;
        backend->iface.graph_plan_compute = graph_plan_compute;
        backend->iface.graph_compute = graph_compute;
        backend->iface.graph_optimize = graph_optimize;
        return backend.release();
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

} // namespace sluice::streaming
