// What one model keeps outside memory: its expert banks, their cache, its row tables, and what went wrong.
#pragma once

#include "base/error.h"
#include "gguf/gguf_directory.h"
#include "options/options.h"
#include "platform/page_residency.h"
#include "platform/reserved_memory.h"
#include "residency/expert_cache.h"
#include "residency/route_sink.h"
#include "residency/row_window.h"
#include "storage/read_engine.h"
#include "streaming/weights/expert_layout.h"
#include "streaming/weights/hidden_names.h"
#include "streaming/weights/placement.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::streaming {

class StreamRuntime;

/// One weight living in reserved memory. Owned by the store; its address is stable.
struct StreamedTensor {
    ggml_tensor *tensor = nullptr;
    std::string name;           ///< its name in the file
    const void *data = nullptr; ///< its reserved memory, noted for when the tensor is gone
    Role role = Role::Experts;
    uint32_t index = 0; ///< BankId of experts, TableId of rows
    platform::IFile *file = nullptr;
    uint64_t offset = 0;       ///< bytes from the start of the file
    bool materialized = false; ///< its bytes are, or can be faulted in, at its reserved memory for good
    bool mapped = false;       ///< materialized, and by the file: it cannot be written to
    bool overwritten = false;  ///< it holds other bytes than the file
    std::shared_ptr<const ExpertLayout> layout; ///< of experts in slots; null: as in the file
};

/// Where a weight's bytes are when they are in its reserved memory.
std::span<std::byte> bytes_of(const StreamedTensor &weight);

/// Of StreamedStore::set_lookahead_experts(): as many as a token uses.
inline constexpr uint32_t kAsManyAsUsed = UINT32_MAX;

/// What was learned about a row table since it was adopted.
struct RowTableState {
    bool index_is_input = false;    ///< some gather's indices are an input of the graph, known before it runs
    bool index_is_computed = false; ///< some gather's indices are computed by the graph
    bool materialized = false;      ///< brought in whole after all
};

/// What a store is made with. The engines outlive it.
struct StoreOptions {
    platform::Access access = platform::Access::Direct;
    PlacementOptions placement = {};
    storage::IReadEngine *expert_reads = nullptr;
    CachePolicy policy = CachePolicy::NextUse;
    IRouteSink *route_sink = nullptr;          ///< told every routing decision; null: nobody
    storage::IReadEngine *row_reads = nullptr; ///< needed if placement.rows
    LossyOptions lossy = {};
    bool repack_experts = false; ///< slots get the layout of ggml's fastest kernels, where there is one
    /// Whether graphs are reordered so that what needs no slice runs while slices are on their way.
    bool overlap = true;
    /// Whether plans of a token's graph guess the next layer's experts; see set_lookahead_experts().
    bool lookahead = true;
    size_t row_window_bytes = 0; ///< what all row tables together keep in memory
    /// Nothing is allocated or read: weights are noted when a graph shows them, to learn what a run would
    /// need.
    bool dry = false;
    /// Told of each node that a dry store is shown, and whether its experts would be streamed; empty: nobody.
    std::function<void(const ggml_cgraph *graph, int node, bool streamed)> on_dry_node = {};
    /// Bytes of memory that could be taken now, empty if unknown; asked before a table is brought in whole.
    std::function<std::optional<uint64_t>()> memory_left = {};
};

/// What the cache of a model's experts would need.
struct CacheNeeds {
    residency::SlotPlan unlimited;  ///< its minimum_bytes and useful_bytes
    uint64_t working_set_bytes = 0; ///< slices that one token touches
};

/// Totals since load. Written by whoever computes, read by anyone.
struct StoreCounters {
    std::atomic<uint64_t> graphs{0};              ///< graphs computed with streamed weights
    std::atomic<uint64_t> graphs_ended{0};        ///< of those, however they ended
    std::atomic<uint64_t> tokens{0};              ///< in graphs that computed logits for each of theirs
    std::atomic<uint64_t> prompt_tokens{0};       ///< in the others
    std::atomic<uint64_t> compute_nanoseconds{0}; ///< of graphs, less the waiting and managing that follow
    std::atomic<uint64_t> between_nanoseconds{0}; ///< from one graph to the next, where that was soon
    std::atomic<uint64_t> stall_nanoseconds{0};   ///< no compute thread multiplied: all waited for slices
    std::atomic<uint64_t> cache_nanoseconds{0};   ///< none did, because of planning, the cache or the window
    std::atomic<uint64_t> staged_steps{0}; ///< expert matmuls run by the stock kernel on staged weights
    std::atomic<uint64_t> materialized{0}; ///< weights brought in whole because a graph used them otherwise
    std::atomic<uint64_t> row_stall_nanoseconds{0};   ///< no compute thread multiplied: all waited for rows
    std::atomic<uint64_t> nodes_brought_forward{0};   ///< to run while slices are on their way
    std::atomic<uint64_t> guessed_experts{0};         ///< that the next layer was expected to choose
    std::atomic<uint64_t> rightly_guessed_experts{0}; ///< of those, chosen
    std::atomic<uint64_t> dropped_experts{0};         ///< see LossyOptions
    std::atomic<uint64_t> substituted_experts{0};
    std::atomic<uint64_t> repacked_slices{0};
    std::atomic<uint64_t> repack_nanoseconds{0}; ///< of all threads added up
};

/// Per model; shared by all contexts on it. Loading is single-threaded; afterwards one graph at a time
/// computes (compute_mutex), whichever context it comes from.
class StreamedStore {
public:
    /// `directory` outlives the store. Errors: InvalidArgument (window smaller than a slab).
    static Result<std::unique_ptr<StreamedStore>> create(const gguf::GgufDirectory &directory,
                                                         StoreOptions options);

    // -- loading -----------------------------------------------------------------------------------

    /// Which weights the loader is to give us; it is asked through our device.
    Placement placement;

    /// Bytes that a buffer must have for `tensor`, so that adopt() can move it to its place in the mirror.
    static size_t reserved_bytes(const ggml_tensor *tensor);

    /// Takes over a tensor just placed in a streamed buffer, in reserved_bytes() of memory. Its data moves to
    /// where it is congruent to its file offset. What is not for the loader to read has its name hidden: the
    /// loader looks bytes up by name. Errors: Internal if it was not wanted, Io, OutOfMemory.
    Status adopt(ggml_tensor *tensor);

    /// Forgets the tensors in [base, base+size): their buffer is being freed.
    void abandon(const void *base, size_t size);

    /// Loading ended, however it ended: puts back the names that are still hidden. A dry store, which never
    /// hides one, forgets the tensors it met. Afterwards the model's tensors may go in any order.
    void loading_ended();

    /// Tensors whose names are hidden now. None but while loading.
    [[nodiscard]] size_t hidden_names() const { return hidden_names_.count(); }

    // -- after loading -----------------------------------------------------------------------------

    /// The streamed weight that `tensor` is or is a view of; null if it is none of this store's.
    StreamedTensor *find(const ggml_tensor *tensor);

    /// Notes which banks `graph` uses together, so that the cache can be sized before the first token.
    void observe(const ggml_cgraph *graph);

    /// What a cache is for, as far as graphs have been seen. Thread-safe. Errors: as residency::plan_slots.
    [[nodiscard]] Result<CacheNeeds> cache_needs() const;

    /// The routing decisions that graphs have shown, each with the banks that use it. Thread-safe.
    [[nodiscard]] std::vector<residency::LayerNeed> layers() const {
        const std::lock_guard lock(setup_mutex_);
        return layers_;
    }

    /// Memory for what a step converts, at least `bytes`; one graph computes at a time, so one is enough for
    /// all graphs of all contexts. Valid until asked for more. Call under compute_mutex.
    std::byte *workspace(size_t bytes);

    /// Allocates the expert cache, unless there is one or nothing to cache. Call after a context was made
    /// (observe() ran), before the first graph. `choose_capacity` is given the plan of a cache without limit,
    /// for its minimum_bytes and useful_bytes, and the token working set; it returns the bytes to use.
    /// Thread-safe.
    Status
    ensure_cache(const std::function<uint64_t(const residency::SlotPlan &, uint64_t)> &choose_capacity);

    /// Tells the cache and the sink what the router chose; see ExpertCache::routed(). Call from the graph
    /// that computes, before the experts' slices are acquired.
    void routed(residency::BankId bank, std::span<const uint32_t> experts, size_t per_token);

    /// Reads the whole weight into its reserved memory (a row table larger than the memory left is mapped),
    /// says so on stderr, and treats it as resident from then on. `why` completes "... because <why>".
    /// Call under compute_mutex.
    Status materialize(StreamedTensor &weight, const std::string &why);

    [[nodiscard]] bool has_banks() const { return !banks_.empty(); }
    [[nodiscard]] const std::vector<residency::Bank> &banks() const { return banks_; }
    /// Slices that one token touches, in bytes, as far as graphs have been seen. Thread-safe.
    [[nodiscard]] uint64_t token_working_set() const;
    /// The cache, null before ensure_cache(). Thread-safe; once there, it stays.
    [[nodiscard]] residency::ExpertCache *cache() const {
        return published_cache_.load(std::memory_order_acquire);
    }
    /// Bytes of all banks.
    [[nodiscard]] uint64_t streamed_bytes() const;

    /// Where rows come from; null without row streaming.
    [[nodiscard]] residency::IRowSource *rows() const { return rows_.get(); }
    /// Bytes of row tables that are off the resident set: not tied, not materialized. Thread-safe.
    [[nodiscard]] uint64_t row_table_bytes() const;
    /// What graphs have shown of a row table, by name. Thread-safe.
    [[nodiscard]] RowTableState row_table_state(const std::string &table) const;
    /// Bytes of dense weights that lie in our buffers all the same, in anonymous memory.
    [[nodiscard]] uint64_t resident_dense_bytes() const { return resident_dense_bytes_; }
    /// Bytes of dense weights that are mapped from the file, and where; in file order.
    [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }
    [[nodiscard]] std::vector<platform::ByteRange> mapped_ranges() const;
    /// Where all dense weights are, as far as graphs have been seen: llama.cpp's buffers and ours.
    /// Thread-safe.
    [[nodiscard]] std::vector<platform::ByteRange> dense_ranges() const;

    /// Bytes of the weight, for whoever asks ggml for a streamed weight's data.
    Status read_weight(const StreamedTensor &weight, size_t offset, std::span<std::byte> into);

    /// Writes to a weight, which is materialized for that. If it cannot be done no graph of the model
    /// computes any more: it would not be with the weights that somebody gave it. Not under compute_mutex.
    Status overwrite(StreamedTensor &weight, size_t offset, std::span<const std::byte> bytes);

    /// Why no graph may compute any more; empty if all may. Call under compute_mutex.
    [[nodiscard]] const std::optional<Error> &refusal() const { return refusal_; }

    /// Call both under compute_mutex. A graph planned under another version of them is planned anew.
    [[nodiscard]] const LossyOptions &lossy() const { return lossy_; }
    void set_lossy(float drop_cold, float substitute);
    [[nodiscard]] uint64_t lossy_version() const { return lossy_version_; }
    /// Says `what` on stderr, unless it has been said.
    void say_once(const std::string &what);
    [[nodiscard]] bool overlaps() const { return options_.overlap; }
    [[nodiscard]] bool looks_ahead() const { return options_.lookahead; }
    /// How many of the next layer's experts to guess and read ahead while a token is computed; 0: none.
    /// Read when a graph begins. Thread-safe.
    void set_lookahead_experts(uint32_t count) { lookahead_experts_.store(count, std::memory_order_relaxed); }
    [[nodiscard]] uint32_t lookahead_experts() const {
        return lookahead_experts_.load(std::memory_order_relaxed);
    }

    // -- failures and counters ---------------------------------------------------------------------

    /// Records the first error of the graph that is computing; later ones are dropped until take_error().
    void set_error(Error error);
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    /// The recorded error, cleared; empty if there was none. Call under compute_mutex, before and after a
    /// graph.
    std::optional<Error> take_error();

    /// Why a graph of the model, or a call of ggml's on one of its weights, failed last, whichever context it
    /// came from; empty if none did. Thread-safe.
    void note_last_error(const Error &error);
    [[nodiscard]] std::optional<Error> last_error() const;

    StoreCounters counters;
    std::mutex compute_mutex;         ///< held while a graph of this model computes
    StreamRuntime *runtime = nullptr; ///< what acts between graphs; it sets this itself. Null: nothing does

private:
    StreamedStore(const gguf::GgufDirectory &directory, StoreOptions options);
    void observe_sources(const ggml_tensor *node);
    StreamedTensor *find_dry(const ggml_tensor *root);
    void adopt_bank(StreamedTensor &streamed);
    void find_layout(StreamedTensor &streamed);
    Status adopt_dense(StreamedTensor &streamed);
    Status materialize_rows(StreamedTensor &weight, const std::string &why);
    Status write_to(StreamedTensor &weight, size_t offset, std::span<const std::byte> bytes);

    const gguf::GgufDirectory &directory_;
    const StoreOptions options_;
    LossyOptions lossy_;
    uint64_t lossy_version_ = 0; ///< changes with it
    std::vector<residency::Bank> banks_;
    std::map<std::array<int64_t, 4>, std::shared_ptr<const ExpertLayout>> layouts_; ///< by type and shape
    std::unique_ptr<residency::RowWindow> rows_;
    HiddenNames hidden_names_;
    uint64_t resident_dense_bytes_ = 0;
    uint64_t mapped_bytes_ = 0;
    std::vector<std::byte> workspace_;
    std::vector<const StreamedTensor *> dense_; ///< dense weights in our buffers
    mutable std::mutex
        setup_mutex_; ///< guards layers_, row_states_, weight_buffers_ and the making of cache_
    std::vector<residency::LayerNeed> layers_;
    std::unordered_map<std::string, RowTableState> row_states_; ///< by name
    std::set<ggml_backend_buffer_t> weight_buffers_;            ///< llama.cpp's own, seen in graphs
    std::unordered_map<const ggml_tensor *, std::unique_ptr<StreamedTensor>> tensors_;
    std::unique_ptr<residency::ExpertCache> cache_;
    std::atomic<residency::ExpertCache *> published_cache_{nullptr};
    std::atomic<uint32_t> lookahead_experts_{0};
    std::set<std::string> said_; ///< guarded by setup_mutex_
    std::atomic<bool> failed_{false};
    mutable std::mutex error_mutex_;
    std::optional<Error> error_;
    std::optional<Error> last_error_;
    std::optional<Error> refusal_;
};

/// Operations that only describe memory; whoever uses their result is looked at instead.
bool only_describes(ggml_op op);

/// Whether `tensor` is an input of its graph (or any other leaf), or a view of one.
bool is_graph_input(const ggml_tensor *tensor);

/// `tensor` itself, or what it is a view of in the end.
const ggml_tensor *view_root(const ggml_tensor *tensor);

} // namespace sluice::streaming
