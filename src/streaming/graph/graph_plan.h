// The rewritten graph: llama.cpp's nodes in their order, expert matmuls swapped for ours, gathers from row
// tables preceded by a fetch.
#pragma once

#include "base/error.h"
#include "streaming/compute/expert_group.h"
#include "streaming/compute/lossy_choice.h"
#include "streaming/compute/row_fetch.h"
#include "streaming/graph/lookahead.h"
#include "streaming/graph/router.h"
#include "streaming/weights/streamed_store.h"

#include "ggml-impl.h"
#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::streaming {

/// One graph, classified and rewritten once, run as often as llama.cpp reuses it. Points into the original
/// graph, so it is valid as long as that one; a changed graph has another uid. Used by one thread at a time
/// but for the nodes' own callbacks.
class GraphPlan {
public:
    /// Looks at every use of every streamed weight. Experts (source 0 of MUL_MAT_ID) are fetched and
    /// multiplied by our nodes; rows (source 0 of GET_ROWS on a row table) are fetched before the stock
    /// kernel gathers them; a weight used in any other way is materialized first. Errors: Io from
    /// materializing; Internal if the graph mixes models or no cache was created.
    static Result<std::unique_ptr<GraphPlan>> build(const ggml_cgraph *graph, StreamedStore &store);

    /// Opens the memory of banks that the stock kernel multiplies; call before computing, and finish()
    /// after, whatever it returns. Errors: OutOfMemory.
    Status open_staged();

    /// The graph to compute instead; resets the plan's run state. Call under the store's compute_mutex.
    ggml_cgraph *rewritten();

    /// Takes back what the run left pinned. Call after computing, however it ended.
    void finish();

    [[nodiscard]] StreamedStore &store() const { return store_; }
    /// Tokens that the graph computes: the most that one routing decision is about, or one gather of rows if
    /// there is none.
    [[nodiscard]] int64_t tokens() const { return tokens_; }
    /// Whether the last layer computes all of them, so that each gets logits. Models that leave out those
    /// that need none do it before that layer's experts.
    [[nodiscard]] bool all_have_logits() const { return outputs_ == tokens_; }
    /// It does what the user no longer wants: build another.
    [[nodiscard]] bool is_outdated() const { return lossy_version_ != store_.lossy_version(); }
    [[nodiscard]] uint64_t uid() const { return uid_; }
    /// A weight has been materialized since: it may hold other bytes than the file now.
    [[nodiscard]] bool is_stale() const { return materialized_ != store_.counters.materialized; }

private:
    /// What a custom node points to.
    struct NodeContext {
        GraphPlan *plan = nullptr;
        ExpertGroup *group = nullptr;
        ExpertStep *step = nullptr;
        RowFetch *rows = nullptr;
        Lookahead *guess = nullptr;
        LossyChoice *choice = nullptr;
    };
    /// One routing decision: adjacent expert matmuls that share their ids.
    struct Decision {
        ggml_tensor *ids = nullptr;
        const ggml_tensor *first_use = nullptr; ///< expert matmul
        int last_use = 0;                       ///< index in the original graph
        int known_after = -1;                   ///< index of the node that computes the ids; -1: an input
        std::optional<Router> router = {};      ///< where looking ahead makes sense
        std::unique_ptr<Lookahead> guess = {};  ///< of this decision, made before it
        bool copied_router = false;             ///< that guess needs the decision before this one
        int begins_after = -1;                  ///< index of the node whose result begin() needs
        const ggml_tensor *weights = nullptr;   ///< where missing experts are to be left out
        std::unique_ptr<LossyChoice> choice = {};
    };
    struct ContextDeleter {
        void operator()(ggml_context *context) const { ggml_free(context); }
    };

    explicit GraphPlan(StreamedStore &store) : store_(store), lossy_version_(store.lossy_version()) {}
    Status classify(const ggml_cgraph *graph);
    Status check_use(const ggml_tensor *node, int source);
    bool is_expert_node(const ggml_tensor *node) const;
    bool is_row_node(const ggml_tensor *node) const;
    bool is_staged(const ggml_tensor *node) const;
    void rewrite(const ggml_cgraph *graph);
    void rewrite_gather(ggml_tensor *node);
    int rewrite_step(const ggml_cgraph *graph, int index);
    void find_decisions(const ggml_cgraph *graph);
    void guess_what_is_certain();
    static bool activations_outlive_begin(const Decision &decision);
    void copy_router_behind(const ggml_tensor *node);
    void copy_next_router(size_t index);
    void find_lossy(const ggml_cgraph *graph);
    void choose_otherwise(int next);
    void begin_what_is_known(int next);
    void begin_next_decision();
    void end_group();
    void close_staged();
    void add_custom(const char *name, ggml_custom_op_t callback, NodeContext context);
    void measure_workspace();

    /// Fails the graph from inside one of its nodes, on account of the exception that is being handled:
    /// ggml's threads can't unwind, so it runs out on zeros.
    void give_up();

    static void begin_experts(ggml_tensor *, int thread, int threads, void *context);
    static void guess_experts(ggml_tensor *, int thread, int, void *context);
    static void choose_experts(ggml_tensor *, int thread, int, void *context);
    static void convert(ggml_tensor *, int thread, int, void *context);
    static void compute(ggml_tensor *, int thread, int, void *context);
    static void unstage(ggml_tensor *, int thread, int, void *context);
    static void start_rows(ggml_tensor *, int thread, int, void *context);
    static void fetch_rows(ggml_tensor *, int thread, int, void *context);
    static void release_rows(ggml_tensor *, int thread, int, void *context);

    StreamedStore &store_;
    uint64_t uid_ = 0;
    uint64_t materialized_ = 0; ///< weights of the store when it was made
    int64_t tokens_ = 0;
    int64_t outputs_ = 0; ///< rows of the last layer
    const uint64_t lossy_version_;
    std::unique_ptr<ggml_context, ContextDeleter> context_; ///< owns the custom nodes
    std::vector<ggml_tensor *> nodes_;
    ggml_cgraph graph_{};
    std::vector<Decision> decisions_;
    size_t begun_ = 0; ///< decisions that have a group, while rewriting
    std::vector<std::unique_ptr<ExpertGroup>> groups_;
    std::vector<std::unique_ptr<NodeContext>> contexts_;
    std::vector<ExpertStep *> steps_;
    std::vector<const StreamedTensor *> staged_banks_; ///< that the stock kernel multiplies
    std::vector<std::unique_ptr<RowFetch>> gathers_;
    size_t workspace_bytes_ = 0; ///< converted activations of the step that runs; the store has the memory
    ExpertGroup *active_ = nullptr;
    float placeholder_ = 0; ///< what custom nodes call their output
};

/// The last few plans by uid. Graphs without a uid are planned anew each time.
class PlanCache {
public:
    explicit PlanCache(size_t capacity) : capacity_(capacity) {}

    /// The plan made for this very graph, or null. One that is stale goes.
    GraphPlan *find(const ggml_cgraph *graph);

    /// Keeps `plan`, dropping another of the same graph, or the one used longest ago if need be. Returns it.
    GraphPlan *keep(std::unique_ptr<GraphPlan> plan);

private:
    size_t capacity_;
    std::vector<std::unique_ptr<GraphPlan>> plans_; ///< most recent last
};

} // namespace sluice::streaming
