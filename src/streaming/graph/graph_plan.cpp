#include "streaming/graph/graph_plan.h"

#include "streaming/compute/cache_time.h"
#include "streaming/weights/streamed_buffer.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::streaming {

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
    plan->materialized_ = store.counters.materialized;
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
    const bool idle = source == 0 && node->op == GGML_OP_MUL_MAT_ID && weight->role == Role::Experts &&
                      !store_.cache()->has_slots(weight->index);
    const char *refusal = gathers ? RowFetch::refusal(node)
                          : idle  ? "no graph used it when the expert cache was made"
                                  : nullptr;
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
           !weight->materialized && store_.cache()->has_slots(weight->index) && kernel_supports(node) &&
           (weight->layout == nullptr || node->src[1]->type == GGML_TYPE_F32);
}

/// Whether the stock kernel multiplies, since it has a way of its own for batches in the file's layout.
bool GraphPlan::is_staged(const ggml_tensor *node) const {
    return stock_has_batch_path(node) && store_.find(node->src[0])->layout == nullptr;
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
    find_decisions(graph);
    outputs_ = decisions_.empty() ? graph->nodes[graph->n_nodes - 1]->ne[1] : decisions_.back().ids->ne[1];
    if (store_.lossy().any()) {
        find_lossy(graph);
    }
    // At most three custom nodes take the place of an expert matmul or come with a gather, three with a
    // decision, two at the start.
    const auto replaced =
        std::count_if(graph->nodes, graph->nodes + graph->n_nodes,
                      [this](const auto *node) { return is_expert_node(node) || is_row_node(node); });
    const size_t most = static_cast<size_t>(replaced) * 3 + decisions_.size() * 3 + 2;
    context_.reset(
        ggml_init({.mem_size = ggml_tensor_overhead() * most, .mem_buffer = nullptr, .no_alloc = true}));
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
    nodes_.reserve(static_cast<size_t>(graph->n_nodes) + most);
    add_custom("start_rows", start_rows, {.plan = this});
    guess_what_is_certain();
    for (int i = 0; i < graph->n_nodes;) {
        if (is_expert_node(graph->nodes[i])) {
            i += rewrite_step(graph, i);
        } else if (is_row_node(graph->nodes[i])) {
            rewrite_gather(graph->nodes[i++]);
        } else {
            nodes_.push_back(graph->nodes[i]);
            copy_router_behind(graph->nodes[i++]);
        }
        choose_otherwise(i);
        begin_what_is_known(i);
    }
    if (gathers_.empty()) {
        nodes_.erase(nodes_.begin()); // nothing to start
    }
    measure_workspace();
    // Same leafs and use counts as the original: ggml's fused operations decide by them.
    graph_ = *graph;
    graph_.nodes = nodes_.data();
    graph_.n_nodes = static_cast<int>(nodes_.size());
    graph_.size = graph_.n_nodes;
}

/// Groups the expert matmuls by their ids, in graph order. Bounded, so that one ids tensor used by all layers
/// does not ask for all their experts at once; and each bank once, so that a slot has one user at a time that
/// may give it another layout.
void GraphPlan::find_decisions(const ggml_cgraph *graph) {
    std::vector<residency::BankId> banks;
    for (int i = 0; i < graph->n_nodes; ++i) {
        ggml_tensor *node = graph->nodes[i];
        if (!is_expert_node(node)) {
            continue;
        }
        const residency::BankId bank = store_.find(node->src[0])->index;
        if (decisions_.empty() || decisions_.back().ids != node->src[2] ||
            banks.size() == residency::kMaxBanksPerLayer ||
            std::find(banks.begin(), banks.end(), bank) != banks.end()) {
            decisions_.push_back({.ids = node->src[2], .first_use = node});
            banks.clear();
        }
        banks.push_back(bank);
        decisions_.back().last_use = i;
    }
    for (Decision &decision : decisions_) {
        tokens_ = std::max(tokens_, decision.ids->ne[1]);
        const ggml_tensor *producer = view_root(decision.ids);
        for (int i = 0; i < graph->n_nodes; ++i) {
            decision.known_after = graph->nodes[i] == producer ? i : decision.known_after;
        }
        decision.begins_after = decision.known_after;
        if (store_.looks_ahead() && decision.ids->ne[1] == 1) {
            decision.router = find_router(decision.ids, store_);
        }
    }
}

/// Sees to it that decisions change as the user has asked by name.
void GraphPlan::find_lossy(const ggml_cgraph *graph) {
    for (size_t layer = 0; layer < decisions_.size(); ++layer) {
        Decision &decision = decisions_[layer];
        if (decision.ids->ne[1] != 1) {
            continue; // a prompt reads each expert once, however many tokens use it
        }
        const char *refusal = nullptr;
        decision.choice = LossyChoice::create(decision.ids, static_cast<uint32_t>(layer), store_, &refusal);
        if (refusal != nullptr) {
            store_.say_once(refusal);
        }
        if (store_.lossy().drop_cold <= 0) {
            continue;
        }
        decision.weights = routing_weights(graph, decision.last_use, decision.ids);
        int known = -1;
        for (int i = 0; decision.weights != nullptr && graph->nodes[i] != decision.first_use; ++i) {
            known = graph->nodes[i] == view_root(decision.weights) ? i : known;
        }
        if (known < 0) {
            decision.weights = nullptr;
            store_.say_once("--drop-cold does nothing in a layer whose experts have biases, or are not "
                            "weighted after the "
                            "router and before they compute");
        }
        decision.begins_after = std::max(decision.known_after, known);
    }
}

/// Directly behind what computes a decision's ids: what chooses others in their place.
void GraphPlan::choose_otherwise(int next) {
    for (Decision &decision : decisions_) {
        if (decision.choice != nullptr && decision.known_after == next - 1) {
            add_custom("choose_experts", choose_experts, {.plan = this, .choice = decision.choice.get()});
        }
    }
}

/// Decisions that depend on the graph's inputs alone are made once more at its very start.
void GraphPlan::guess_what_is_certain() {
    for (Decision &decision : decisions_) {
        if (decision.router && decision.router->activations == nullptr) {
            decision.guess = Lookahead::create(*decision.router, nullptr, store_);
            if (decision.guess != nullptr) {
                nodes_.insert(nodes_.end(), decision.guess->nodes().begin(), decision.guess->nodes().end());
                add_custom("guess_experts", guess_experts, {.plan = this, .guess = decision.guess.get()});
            }
        }
    }
}

/// Begins the next decision as early as can be, so that whatever lies between it and its first matmul is
/// computed while its slices are on their way: once its ids are known and the decision before it is done.
/// Nodes before `next` have been rewritten.
void GraphPlan::begin_what_is_known(int next) {
    const bool free = begun_ == 0 || decisions_[begun_ - 1].last_use < next;
    if (begun_ < decisions_.size() && free && decisions_[begun_].begins_after < next) {
        begin_next_decision();
    }
}

void GraphPlan::begin_next_decision() {
    Decision &decision = decisions_[begun_++];
    groups_.push_back(std::make_unique<ExpertGroup>(decision.ids, store_));
    if (groups_.size() > 1) {
        groups_[groups_.size() - 2]->set_next(groups_.back().get());
    }
    groups_.back()->set_weights(decision.weights);
    if (decision.choice != nullptr) {
        decision.choice->set_target(groups_.back().get());
    }
    if (decision.guess != nullptr) {
        decision.guess->set_target(groups_.back().get());
    }
    add_custom("begin_experts", begin_experts, {.plan = this, .group = groups_.back().get()});

    if (activations_outlive_begin(decision)) {
        copy_next_router(begun_ - 1);
    }
    if (begun_ < decisions_.size() && decisions_[begun_].copied_router) {
        add_custom("guess_experts", guess_experts, {.plan = this, .guess = decisions_[begun_].guess.get()});
    }
}

/// Whether what a decision's router multiplies is still there when the decision begins: its experts need it.
bool GraphPlan::activations_outlive_begin(const Decision &decision) {
    return decision.router && decision.router->activations != nullptr &&
           view_root(decision.router->activations) == view_root(decision.first_use->src[1]);
}

/// Where they are not, the next router is copied right behind this one's matmul.
void GraphPlan::copy_router_behind(const ggml_tensor *node) {
    if (begun_ == decisions_.size() || node->op != GGML_OP_MUL_MAT) {
        return;
    }
    const Decision &decision = decisions_[begun_];
    if (decision.router && decision.router->activations == node->src[1] &&
        !activations_outlive_begin(decision)) {
        copy_next_router(begun_);
    }
}

/// Computes the router of the decision behind `index` here, on what the one at `index` multiplies: layers'
/// activations resemble each other.
void GraphPlan::copy_next_router(size_t index) {
    if (index + 1 >= decisions_.size()) {
        return;
    }
    Decision &after = decisions_[index + 1];
    if (after.guess != nullptr || !after.router) {
        return;
    }
    // ggml's sources aren't const, though nobody writes to them.
    auto *activations = const_cast<ggml_tensor *>(decisions_[index].router->activations);
    after.guess = Lookahead::create(*after.router, activations, store_);
    if (after.guess != nullptr) {
        after.copied_router = true;
        nodes_.insert(nodes_.end(), after.guess->nodes().begin(), after.guess->nodes().end());
    }
}

void GraphPlan::rewrite_gather(ggml_tensor *node) {
    gathers_.push_back(std::make_unique<RowFetch>(node, *store_.find(node->src[0]), store_));
    if (decisions_.empty()) {
        tokens_ = std::max(tokens_, ggml_nelements(node->src[1]));
    }
    const NodeContext context{.plan = this, .rows = gathers_.back().get()};
    add_custom("fetch_rows", fetch_rows, context);
    nodes_.push_back(node);
    add_custom("release_rows", release_rows, context);
}

/// Rewrites the matmul at `index` and those right after it on the same activations and ids: adjacent nodes'
/// outputs can't share memory with anything still needed, so they may run as one. Returns how many were
/// taken.
int GraphPlan::rewrite_step(const ggml_cgraph *graph, int index) {
    if (begun_ == 0 || decisions_[begun_ - 1].last_use < index) {
        begin_next_decision();
    }
    ggml_tensor *first = graph->nodes[index];
    const bool staged = is_staged(first);
    int taken = 1;
    while (!staged && index + taken <= decisions_[begun_ - 1].last_use) {
        const ggml_tensor *next = graph->nodes[index + taken];
        if (!is_expert_node(next) || next->src[1] != first->src[1] || next->src[2] != first->src[2] ||
            is_staged(next) || converted_bytes(next) != converted_bytes(first) ||
            ggml_get_type_traits_cpu(next->src[0]->type)->vec_dot_type !=
                ggml_get_type_traits_cpu(first->src[0]->type)->vec_dot_type) {
            break;
        }
        ++taken;
    }

    ExpertGroup &group = *groups_.back();
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

    const NodeContext context{.plan = this, .group = &group, .step = &step};
    if (converts) {
        add_custom("convert_activations", convert, context);
    }
    add_custom("multiply_experts", compute, context);
    if (staged) {
        staged_banks_.push_back(step.uses.front().weight);
        nodes_.push_back(first);
        add_custom("unstage_experts", unstage, context);
    }
    return taken;
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
void GraphPlan::measure_workspace() {
    for (const ExpertStep *step : steps_) {
        if (step->activations.row_bytes > 0) {
            workspace_bytes_ = std::max(workspace_bytes_, converted_bytes(step->uses.front().node));
        }
    }
}

/// Before the graph runs and not in it: once it runs it runs to its end, reading what was to be staged even
/// if that failed.
Status GraphPlan::open_staged() {
    for (const StreamedTensor *bank : staged_banks_) {
        if (auto opened = platform::ReservedMemory::open_pages(bytes_of(*bank)); !opened) {
            return opened;
        }
    }
    return {};
}

void GraphPlan::close_staged() {
    for (const StreamedTensor *bank : staged_banks_) {
        if (!bank->materialized) { // or another context's graph brought it in for good
            platform::ReservedMemory::discard_pages(bytes_of(*bank)); // a graph that was aborted left them
            if (auto closed = platform::ReservedMemory::close_pages(bytes_of(*bank)); !closed) {
                store_.set_error(closed.error());
            }
        }
    }
}

ggml_cgraph *GraphPlan::rewritten() {
    std::byte *workspace = store_.workspace(workspace_bytes_);
    for (ExpertStep *step : steps_) {
        if (step->activations.row_bytes > 0) {
            step->conversion_target = workspace;
            step->activations.converted = workspace;
        }
        step->next_piece.store(0, std::memory_order_relaxed);
        step->running.reset();
    }
    for (const auto &gather : gathers_) {
        gather->reset();
    }
    for (const Decision &decision : decisions_) {
        if (decision.guess != nullptr) {
            decision.guess->prepare();
        }
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
    close_staged();
    for (const auto &gather : gathers_) {
        gather->release();
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
    if ((*it)->is_stale()) {
        plans_.erase(it);
        return nullptr;
    }
    std::rotate(it, std::next(it), plans_.end());
    return plans_.back().get();
}

GraphPlan *PlanCache::keep(std::unique_ptr<GraphPlan> plan) {
    // A plan without a uid is never found again: it makes room first, as does one that this one replaces.
    const auto useless = std::find_if(plans_.begin(), plans_.end(), [&plan](const auto &kept) {
        return kept->uid() == 0 || kept->uid() == plan->uid();
    });
    if (useless != plans_.end()) {
        plans_.erase(useless);
    } else if (plans_.size() >= capacity_) {
        plans_.erase(plans_.begin());
    }
    plans_.push_back(std::move(plan));
    return plans_.back().get();
}

} // namespace sluice::streaming
