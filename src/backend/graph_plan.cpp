#include "backend/graph_plan.h"

#include "backend/streaming_device.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::backend {

namespace {

/// Counts its lifetime as cache management. For what one thread does while no other has anything to multiply.
class CacheTime {
public:
    explicit CacheTime(StreamedStore &store) : store_(store) {}
    ~CacheTime() { store_.counters.cache_nanoseconds += nanoseconds_since(start_); }
    CacheTime(const CacheTime &) = delete;
    CacheTime &operator=(const CacheTime &) = delete;

private:
    StreamedStore &store_;
    const Clock::time_point start_ = Clock::now();
};

} // namespace

Result<std::unique_ptr<GraphPlan>> GraphPlan::build(const ggml_cgraph *graph, StreamedStore &store) {
    if (store.has_banks() && store.cache() == nullptr) {
        return fail(ErrorCode::Internal,
                    "a graph with streamed experts was run before their cache was created");
    }
    const CacheTime time(store);
    std::unique_ptr<GraphPlan> plan(new GraphPlan(store));
    plan->uid_ = graph->uid;
    if (auto classified = plan->classify(graph); !classified) {
        return fail(classified.error());
    }
    plan->rewrite(graph);
    return plan;
}

Status GraphPlan::classify(const ggml_cgraph *graph) {
    for (int i = 0; i < graph->n_nodes; ++i) {
        // ggml skips nodes without the flag.
        if (only_describes(graph->nodes[i]->op) || (graph->nodes[i]->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) {
            continue;
        }
        for (int source = 0; source < GGML_MAX_SRC; ++source) {
            if (graph->nodes[i]->src[source] != nullptr) {
                if (auto checked = check_use(graph->nodes[i], source); !checked) {
                    return checked;
                }
            }
        }
    }
    return {};
}

Status GraphPlan::check_use(const ggml_tensor *node, int source) {
    StreamedStore *owner = store_of(node->src[source]);
    if (owner == nullptr) {
        return {};
    }
    if (owner != &store_) {
        return fail(ErrorCode::Internal, "a graph uses streamed weights of two models at once");
    }
    if (source == 0 && (is_expert_node(node) || is_row_node(node))) {
        return {};
    }
    StreamedTensor *weight = store_.find(node->src[source]);
    if (weight == nullptr) {
        return fail(ErrorCode::Internal,
                    fmt::format("{} lies in a streamed buffer but is not known to its store",
                                node->src[source]->name));
    }
    const bool gathers = source == 0 && node->op == GGML_OP_GET_ROWS && weight->role == Role::Rows;
    const char *refusal = gathers ? RowFetch::refusal(node) : nullptr;
    return store_.materialize(*weight, refusal != nullptr ? refusal
                                                          : fmt::format("{} reads it as source {}",
                                                                        ggml_op_name(node->op), source));
}

bool GraphPlan::is_expert_node(const ggml_tensor *node) const {
    if (node->op != GGML_OP_MUL_MAT_ID || (node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) {
        return false;
    }
    const StreamedTensor *weight = store_.find(node->src[0]);
    return weight != nullptr && weight->tensor == node->src[0] && weight->role == Role::Experts &&
           !weight->materialized && kernel_supports(node);
}

bool GraphPlan::is_row_node(const ggml_tensor *node) const {
    if (node->op != GGML_OP_GET_ROWS || (node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) {
        return false;
    }
    const StreamedTensor *table = store_.find(node->src[0]);
    return table != nullptr && table->role == Role::Rows && !table->materialized &&
           RowFetch::refusal(node) == nullptr;
}

void GraphPlan::rewrite(const ggml_cgraph *graph) {
    // At most three custom nodes take the place of an expert matmul, two come with a gather, one at the
    // start.
    const size_t overhead = ggml_tensor_overhead() * (static_cast<size_t>(graph->n_nodes) * 3 + 1);
    context_.reset(ggml_init({.mem_size = overhead, .mem_buffer = nullptr, .no_alloc = true}));
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
    nodes_.reserve(static_cast<size_t>(graph->n_nodes) + 64);
    add_custom("start_rows", start_rows, {.plan = this});
    for (int i = 0; i < graph->n_nodes;) {
        if (is_expert_node(graph->nodes[i])) {
            i += rewrite_step(graph, i);
        } else if (is_row_node(graph->nodes[i])) {
            rewrite_gather(graph->nodes[i++]);
        } else {
            nodes_.push_back(graph->nodes[i++]);
        }
    }
    if (gathers_.empty()) {
        nodes_.erase(nodes_.begin()); // nothing to start
    }
    place_workspace();
    // Same leafs and use counts as the original: ggml's fused operations decide by them.
    graph_ = *graph;
    graph_.nodes = nodes_.data();
    graph_.n_nodes = static_cast<int>(nodes_.size());
    graph_.size = graph_.n_nodes;
}

void GraphPlan::rewrite_gather(ggml_tensor *node) {
    gathers_.push_back(std::make_unique<RowFetch>(node, *store_.find(node->src[0]), store_));
    const NodeContext context{.plan = this, .rows = gathers_.back().get()};
    add_custom("fetch_rows", fetch_rows, context);
    nodes_.push_back(node);
    add_custom("release_rows", release_rows, context);
}

/// Rewrites the matmul at `index` and those right after it on the same activations and ids: adjacent nodes'
/// outputs can't share memory with anything still needed, so they may run as one. Returns how many were
/// taken.
int GraphPlan::rewrite_step(const ggml_cgraph *graph, int index) {
    ggml_tensor *first = graph->nodes[index];
    const bool staged = stock_has_batch_path(first);
    int taken = 1;
    while (!staged && index + taken < graph->n_nodes) {
        const ggml_tensor *next = graph->nodes[index + taken];
        if (!is_expert_node(next) || next->src[1] != first->src[1] || next->src[2] != first->src[2] ||
            stock_has_batch_path(next) || converted_bytes(next) != converted_bytes(first) ||
            ggml_get_type_traits_cpu(next->src[0]->type)->vec_dot_type !=
                ggml_get_type_traits_cpu(first->src[0]->type)->vec_dot_type) {
            break;
        }
        ++taken;
    }

    bool begins_group = false;
    ExpertGroup &group = group_for(first->src[2], static_cast<size_t>(taken), begins_group);
    ExpertStep &step = group.add_step(staged ? StepKind::Stage : StepKind::Multiply);
    steps_.push_back(&step);
    for (int i = 0; i < taken; ++i) {
        ggml_tensor *node = graph->nodes[index + i];
        step.uses.push_back({.node = node, .weight = store_.find(node->src[0])});
    }
    step.activations = {.source = first->src[1]};
    const bool converts = !staged && converted_bytes(first) > 0;
    step.activations.row_bytes =
        converts ? converted_bytes(first) / static_cast<size_t>(first->src[1]->ne[1] * first->src[1]->ne[2])
                 : 0;

    const NodeContext context{.plan = this, .group = &group, .step = &step, .begins_group = begins_group};
    if (begins_group || converts) {
        add_custom("prepare_experts", prepare, context);
    }
    add_custom("multiply_experts", compute, context);
    if (staged) {
        nodes_.push_back(first);
        add_custom("unstage_experts", unstage, context);
    }
    return taken;
}

/// The group of steps sharing `ids`. Bounded, so that one ids tensor used by all layers does not ask for all
/// their experts at once.
ExpertGroup &GraphPlan::group_for(const ggml_tensor *ids, size_t extra_banks, bool &is_new) {
    // Only the latest group can go on: an earlier one has ended when another began.
    is_new = groups_.empty() || groups_.back()->ids() != ids ||
             groups_.back()->bank_count() + extra_banks > residency::kMaxBanksPerLayer;
    if (!is_new) {
        return *groups_.back();
    }
    groups_.push_back(std::make_unique<ExpertGroup>(ids, store_));
    if (groups_.size() > 1) {
        groups_[groups_.size() - 2]->set_next(groups_.back().get());
    }
    return *groups_.back();
}

void GraphPlan::add_custom(const char *name, ggml_custom_op_t callback, NodeContext context) {
    contexts_.push_back(std::make_unique<NodeContext>(context));
    ggml_tensor *node = ggml_custom_4d(context_.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, callback,
                                       GGML_N_TASKS_MAX, contexts_.back().get());
    ggml_set_name(node, name); // for traces
    node->data = &placeholder_;
    node->flags |= GGML_TENSOR_FLAG_COMPUTE; // ggml skips nodes without it
    nodes_.push_back(node);
}

/// Steps run one after the other, so one buffer serves all of them.
void GraphPlan::place_workspace() {
    size_t largest = 0;
    for (const ExpertStep *step : steps_) {
        if (step->activations.row_bytes > 0) {
            largest = std::max(largest, converted_bytes(step->uses.front().node));
        }
    }
    workspace_.resize(largest + 64);
    for (ExpertStep *step : steps_) {
        if (step->activations.row_bytes > 0) {
            step->conversion_target = workspace_.data();
            step->activations.converted = workspace_.data();
        }
    }
}

ggml_cgraph *GraphPlan::rewritten() {
    for (ExpertStep *step : steps_) {
        step->next_piece.store(0, std::memory_order_relaxed);
        step->beginning.reset();
        step->running.reset();
    }
    for (const auto &gather : gathers_) {
        gather->reset();
    }
    return &graph_;
}

void GraphPlan::end_group() {
    if (active_ != nullptr) {
        active_->end();
        active_ = nullptr;
    }
}

void GraphPlan::finish() {
    const CacheTime time(store_);
    end_group();
    for (const auto &gather : gathers_) {
        gather->release();
    }
}

void GraphPlan::prepare(ggml_tensor *, int thread, int threads, void *context) {
    const NodeContext &node = *static_cast<NodeContext *>(context);
    if (thread == 0 && node.begins_group) {
        const auto start = Clock::now();
        try {
            node.plan->end_group();
            node.plan->active_ = node.group;
            node.group->begin();
        } catch (const std::exception &error) {
            node.plan->give_up(error.what());
        }
        node.plan->store_.counters.cache_nanoseconds += node.step->beginning.held_up_since(start, threads);
    }
    ExpertGroup::convert(*node.step);
    if (thread != 0 && node.begins_group) {
        node.step->beginning.others_done();
    }
}

void GraphPlan::give_up(const char *why) {
    store_.set_error({ErrorCode::OutOfMemory, fmt::format("out of memory while computing: {}", why)});
    if (store_.cache() != nullptr) {
        store_.cache()->wake_waiters();
    }
}

void GraphPlan::compute(ggml_tensor *, int, int threads, void *context) {
    const NodeContext &node = *static_cast<NodeContext *>(context);
    try {
        node.group->run(*node.step, threads);
    } catch (const std::exception &error) {
        node.plan->give_up(error.what());
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
    } catch (const std::exception &error) {
        plan.give_up(error.what());
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
    } catch (const std::exception &error) {
        node.plan->give_up(error.what());
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

GraphPlan *PlanCache::find(const ggml_cgraph *graph) {
    if (graph->uid == 0) {
        return nullptr;
    }
    const auto it = std::find_if(plans_.begin(), plans_.end(),
                                 [graph](const auto &plan) { return plan->uid() == graph->uid; });
    if (it == plans_.end()) {
        return nullptr;
    }
    std::rotate(it, std::next(it), plans_.end());
    return plans_.back().get();
}

GraphPlan *PlanCache::keep(std::unique_ptr<GraphPlan> plan) {
    // A plan without a uid is never found again: it makes room first.
    const auto unfindable =
        std::find_if(plans_.begin(), plans_.end(), [](const auto &kept) { return kept->uid() == 0; });
    if (unfindable != plans_.end()) {
        plans_.erase(unfindable);
    } else if (plans_.size() >= capacity_) {
        plans_.erase(plans_.begin());
    }
    plans_.push_back(std::move(plan));
    return plans_.back().get();
}

} // namespace sluice::backend
