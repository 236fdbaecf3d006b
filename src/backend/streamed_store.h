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

/// How the last computed graph spent its time waiting, and totals since load.
struct StoreCounters {
    uint64_t graphs = 0;            ///< graphs computed with streamed weights
    uint64_t stall_nanoseconds = 0; ///< time the first compute thread waited for expert slices
    uint64_t staged_steps = 0;      ///< expert matmuls run by the stock kernel on staged weights
    uint64_t materialized = 0;      ///< weights brought in whole because a graph used them otherwise
    uint64_t materialized_bytes = 0;
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

    /// Allocates the expert cache. Call after a context was made (observe() ran), before the first graph.
    /// A second call returns success and changes nothing.
    Status create_cache(size_t capacity_bytes);

    /// Reads the whole weight into its reserved memory, says so on stderr, and treats it as resident from
    /// then on. `why` completes the sentence "... because <why>".
    Status materialize(StreamedTensor &weight, const std::string &why);

    [[nodiscard]] bool has_banks() const { return !banks_.empty(); }
    [[nodiscard]] const std::vector<residency::Bank> &banks() const { return banks_; }
    [[nodiscard]] const std::vector<residency::LayerNeed> &layers() const { return layers_; }
    [[nodiscard]] residency::ExpertCache *cache() { return cache_.get(); }
    [[nodiscard]] storage::Access access() const { return access_; }
    [[nodiscard]] uint64_t streamed_bytes() const;

    /// Bytes copied out of the file for `tensor`, for whoever asks ggml for a streamed weight's data.
    Status read_weight(const StreamedTensor &weight, size_t offset, std::span<std::byte> into);

    // -- failures and counters ---------------------------------------------------------------------

    /// Records the first error of a graph; later ones are dropped until take_error().
    void set_error(Error error);
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    /// The recorded error, cleared; empty if there was none.
    std::optional<Error> take_error();

    StoreCounters counters; ///< written under compute_mutex
    std::mutex compute_mutex;

private:
    const model::GgufDirectory &directory_;
    storage::IReadEngine &engine_;
    const storage::Access access_;
    std::vector<residency::Bank> banks_;
    std::vector<residency::LayerNeed> layers_;
    std::unordered_map<const ggml_tensor *, std::unique_ptr<StreamedTensor>> tensors_;
    std::unique_ptr<residency::ExpertCache> cache_;
    std::atomic<bool> failed_{false};
    std::mutex error_mutex_;
    std::optional<Error> error_;
};

/// `tensor` itself, or what it is a view of in the end.
const ggml_tensor *view_root(const ggml_tensor *tensor);

} // namespace sluice::backend
