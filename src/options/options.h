// What a caller may ask for. Plain data; the defaults are what a user without flags gets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice {

class IRouteSink;
class IRouteSource;
struct NodeSample;
struct TokenSample;

/// Whether a model's experts are streamed from storage or held in memory.
enum class StreamMode {
    Auto,  ///< stream when the model would not fit in free memory
    Force, ///< always stream (a dense model then runs with nothing to stream)
    Never, ///< always resident
};

/// How dense weights (those that every token multiplies) are held while streaming. Weights that llama.cpp
/// repacks for its fastest kernels are in anonymous memory in every mode.
enum class DenseWeights {
    Anon,   ///< read once, past the page cache, into anonymous memory
    Mmap,   ///< mapped from the file, read when first touched
    Warm,   ///< mapped, and read once while loading
    Locked, ///< as Anon, and locked against being swapped out
    Ahwb,   ///< Android's AHardwareBuffer memory; refused elsewhere
};

/// What performs reads of experts and rows.
enum class IoEngine {
    Auto,    ///< what is best here
    Uring,   ///< Linux's io_uring; threads where it is refused, which is said
    Threads, ///< a pool of threads
};

/// Which of the expert slices in a full cache makes room for another.
enum class CachePolicy {
    NextUse, ///< the one whose next use is expected last, from the order of layers and how often it was used
    Lru,     ///< the one used longest ago
    Lfu,     ///< the one used least often
};

/// What makes a run quicker and its text another than the model's. All off unless asked for by name; a run
/// with any of them says so wherever its results go.
struct LossyOptions {
    /// Experts that each token uses in each layer; 0: as many as the file says.
    uint32_t n_expert_used = 0;
    /// While a token is computed, leave out experts that are not in the cache and weigh less than this share
    /// of what each would if all weighed alike. 0: none.
    float drop_cold = 0;
    /// While a token is computed, use experts that are in the cache in the place of chosen ones that are not,
    /// if their router scores differ by at most this share of the scores' range. 0: never.
    float substitute = 0;
    /// For benchmarks: decides in the router's place. It outlives the model.
    IRouteSource *route_source = nullptr;

    [[nodiscard]] bool any() const {
        return n_expert_used > 0 || drop_cold > 0 || substitute > 0 || route_source != nullptr;
    }
    /// Those in force as on the command line, such as "--drop-cold 0.5"; empty if there are none.
    [[nodiscard]] std::string flags() const;
};

/// How to load a model.
struct ModelOptions {
    std::string path = {}; ///< a GGUF file, or the first of several shards
    StreamMode stream = StreamMode::Auto;
    std::string mode_reason = {}; ///< why `stream` is what it is, for people; empty: the caller asked for it
    /// Expert cache; empty: what free memory allows, a floor left to the system.
    std::optional<uint64_t> cache_bytes = {};
    /// Changes speed, never output.
    CachePolicy cache_policy = CachePolicy::NextUse;
    DenseWeights dense_weights = DenseWeights::Anon;
    /// While streaming: read only the rows that are gathered of weights that are never multiplied.
    bool row_stream = false;
    /// What all such tables keep in memory; at least 16 KiB, or a page where pages are larger.
    uint64_t row_window_bytes = uint64_t{64} << 20U;
    IoEngine io_engine = IoEngine::Auto;
    int io_depth = 0;   ///< reads of slices in flight with io_uring, 1 to 1024; 0: the run finds out
    int io_threads = 0; ///< threads that read slices where io_uring does not, 1 to 64; 0: the run finds out
    /// Experts of the next layer to guess and read ahead while a token is computed and storage has nothing
    /// else to do. Empty: as many as a token uses, unless tokens are measured to be quicker without; 0: none.
    std::optional<uint32_t> lookahead = {};
    /// Folder in which to keep what the expert cache held, for the next run of the same file to begin with.
    /// Empty: nowhere.
    std::string hot_set_folder = {};
    /// Reorder graphs so that what needs no expert runs while slices are on their way. Never changes the
    /// output; off to measure what it is worth.
    bool overlap = true;
    LossyOptions lossy = {};
    bool direct = true; ///< read past the page cache where the file system can
    bool repack = true; ///< let llama.cpp repack dense weights for its fastest kernels
    /// While streaming, give each expert slice the layout of those kernels too, when it is first used after
    /// it was read. The output is then that of a resident run that repacks; without it, of one that leaves
    /// experts as in the file. Pays only where nothing is evicted: a plan sets it there. Needs `repack`.
    bool repack_experts = false;
    /// Told every routing decision when experts are streamed; null: nobody. It outlives the model.
    IRouteSink *route_sink = nullptr;
    /// Called with 0..1 while loading, on the loading thread; false cancels.
    std::function<bool(float)> progress = {};
};

/// How to set up a context on a model.
struct SessionOptions {
    uint32_t context_tokens = 0;  ///< 0: 4096, or what the model was trained for if that is less
    uint32_t ubatch_tokens = 512; ///< tokens computed together while prefilling
    int threads = 0;              ///< compute threads; 0: as many as suit the machine
    /// Tokens are tried with fewer threads as well, and what is surely quicker is kept. A plan sets it where
    /// the number was not given.
    bool try_fewer_threads = false;
    bool restless = false;   ///< for tests: all that a run may decide is set anew for each batch
    bool all_logits = false; ///< compute logits for every token decoded, not only the last
    /// Called after each decode that succeeded, by the thread that called decode() or generate(), before any
    /// text that follows from it; must not throw. What it takes counts as time between decodes. With it,
    /// faults, memory and processor time are measured, too.
    std::function<void(const TokenSample &)> on_sample = {};
    /// Called for each node of each graph, when the graph has been computed. Tracing costs time of its own.
    std::function<void(const NodeSample &)> on_node = {};
};

/// How the next token is drawn. Names and meaning as in llama.cpp.
struct SamplingOptions {
    float temperature = 0.8F; ///< 0 or less: greedy
    int top_k = 40;           ///< 0 or less: all
    float top_p = 0.95F;
    float min_p = 0.05F;
    float repeat_penalty = 1.0F; ///< 1: none
    int repeat_last_n = 64;
    std::optional<uint32_t> seed = {}; ///< empty: a random one
};

} // namespace sluice
