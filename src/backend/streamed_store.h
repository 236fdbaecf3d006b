// What one model keeps outside memory: its expert banks, their cache, and what went wrong.
#pragma once

#include "model/gguf_directory.h"
#include "residency/expert_cache.h"
#include "sluice/error.h"
#include "storage/read_engine.h"
#include "storage/reserved_memory.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::backend {

/// One weight living in reserved memory. Owned by the store; its address is stable.
struct StreamedTensor {
    ggml_tensor *tensor = nullptr;
    std::string name;           ///< its name in the file
    const void *data = nullptr; ///< its reserved memory, noted for when the tensor is gone
    residency::BankId bank = 0;
    bool materialized = false; ///< brought into its reserved memory for good
};

/// Totals since load. Written by whoever computes, read by anyone.
struct StoreCounters {
    std::atomic<uint64_t> graphs{0};            ///< graphs computed with streamed weights
    std::atomic<uint64_t> stall_nanoseconds{0}; ///< time the first compute thread waited for expert slices
    std::atomic<uint64_t> staged_steps{0};      ///< expert matmuls run by the stock kernel on staged weights
    std::atomic<uint64_t> materialized{0}; ///< weights brought in whole because a graph used them otherwise
};

/// Per model; shared by all contexts on it. Loading is single-threaded; afterwards one graph at a time
/// computes (compute_mutex), whichever context it comes from.
class StreamedStore {
public:
    /// `directory` and `engine` outlive the store.
    StreamedStore(const model::GgufDirectory &directory, storage::IReadEngine &engine,
                  storage::Access access);

    // -- loading -----------------------------------------------------------------------------------

    /// Whether `weight` (as the loader asks, by name) is a bank that the file can serve slice by slice.
    [[nodiscard]] bool can_stream(const ggml_tensor *weight) const;

    /// Takes over a tensor just placed in a streamed buffer and hides its name, so that the loader, which
    /// looks bytes up by name, does not read it. False if the file has no such bank.
    bool adopt(ggml_tensor *tensor);

    /// Forgets the tensors in [base, base+size): their buffer is being freed.
    void abandon(const void *base, size_t size);

    /// Puts the hidden names back. Called when loading ended, however it ended.
    void restore_names();

    // -- after loading -----------------------------------------------------------------------------

    /// The streamed weight that `tensor` is or is a view of; null if it is none of this store's.
    StreamedTensor *find(const ggml_tensor *tensor);

    /// Notes which banks `graph` uses together, so that the cache can be sized before the first token.
    void observe(const ggml_cgraph *graph);

    /// Allocates the expert cache, unless there is one or nothing to cache. Call after a context was made
    /// (observe() ran), before the first graph. `choose_capacity` is given the plan of a cache without limit,
    /// for its minimum_bytes and useful_bytes, and the token working set; it returns the bytes to use.
    /// Thread-safe.
    Status
    ensure_cache(const std::function<uint64_t(const residency::SlotPlan &, uint64_t)> &choose_capacity);

    /// Reads the whole weight into its reserved memory, says so on stderr, and treats it as resident from
    /// then on. `why` completes the sentence "... because <why>".
    Status materialize(StreamedTensor &weight, const std::string &why);

    [[nodiscard]] bool has_banks() const { return !banks_.empty(); }
    [[nodiscard]] const std::vector<residency::Bank> &banks() const { return banks_; }
    /// Slices that one token touches, in bytes, as far as graphs have been seen. Thread-safe.
    [[nodiscard]] uint64_t token_working_set() const;
    /// The cache, null before ensure_cache(). Thread-safe; once there, it stays.
    [[nodiscard]] residency::ExpertCache *cache() const {
        return published_cache_.load(std::memory_order_acquire);
    }
    [[nodiscard]] storage::Access access() const { return access_; }
    [[nodiscard]] uint64_t streamed_bytes() const;

    /// Bytes of the weight from the file, for whoever asks ggml for a streamed weight's data.
    Status read_weight(const StreamedTensor &weight, size_t offset, std::span<std::byte> into);

    // -- failures and counters ---------------------------------------------------------------------

    /// Records the first error of the graph that is computing; later ones are dropped until take_error().
    void set_error(Error error);
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    /// The recorded error, cleared; empty if there was none. Call under compute_mutex, before and after a
    /// graph.
    std::optional<Error> take_error();

    StoreCounters counters;
    std::mutex compute_mutex; ///< held while a graph of this model computes

private:
    const model::GgufDirectory &directory_;
    storage::IReadEngine &engine_;
    const storage::Access access_;
    std::vector<residency::Bank> banks_;
    mutable std::mutex setup_mutex_; ///< guards layers_ and the making of cache_
    std::vector<residency::LayerNeed> layers_;
    std::unordered_map<const ggml_tensor *, std::unique_ptr<StreamedTensor>> tensors_;
    std::unique_ptr<residency::ExpertCache> cache_;
    std::atomic<residency::ExpertCache *> published_cache_{nullptr};
    std::atomic<bool> failed_{false};
    std::mutex error_mutex_;
    std::optional<Error> error_;
};

/// `tensor` itself, or what it is a view of in the end.
const ggml_tensor *view_root(const ggml_tensor *tensor);

} // namespace sluice::backend
