// What acts between the graphs of one streamed model, whichever contexts they come from.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "residency/hot_set.h"
#include "residency/pressure.h"
#include "streaming/compute/step_clock.h"
#include "streaming/runtime/run_tuning.h"
#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::streaming {

/// What is told once, for all contexts on a model.
struct RuntimeOptions {
    std::optional<uint64_t> cache_bytes = {}; ///< empty: what memory leaves when the cache is made
    TuningOptions tuning = {};
    std::string hot_set_folder = {};   ///< empty: what is hot is neither kept nor read
    residency::FileIdentity file = {}; ///< whose hot set it is
};

/// One for each model, and the store's until it goes. It sequences small parts that have a state of their
/// own: the cache and its pressure, the hot set, the settings that a run decides. Thread-safe;
/// before_graph(), begin() and after_graph() are called under the store's compute lock, in this order.
class StreamRuntime {
public:
    /// `store` and `reads` outlive it.
    StreamRuntime(StreamedStore &store, storage::SwitchedReadEngine &reads, RuntimeOptions options);
    /// Keeps what is hot for the next run. No graph of the model may compute any more.
    ~StreamRuntime();
    StreamRuntime(const StreamRuntime &) = delete;
    StreamRuntime &operator=(const StreamRuntime &) = delete;

    /// Makes the cache now, for who wants to know before the first graph; once there is one, nothing happens.
    /// `untouched_bytes`: allocated by contexts and not yet backed by memory. Errors: as
    /// residency::plan_slots.
    Status make_cache(uint64_t untouched_bytes);

    /// The model's graph is about to be planned: makes the cache if this is the first, else looks at memory
    /// and at the hot set. Errors: as make_cache().
    Status before_graph(const ggml_cgraph *graph);

    /// The graph is about to be computed for `tokens` tokens. Settles how slices are read and guessed, and
    /// returns how many threads are to compute, 0 for as many as its context says: it decides only where
    /// `most_threads`, the number that the context would take, is not 0.
    int begin(int64_t tokens, int most_threads);

    /// It was computed. What a token took is what the settings are judged by.
    void after_graph(bool succeeded);

    /// `listener` is told of the first graph, when the cache for it is there. Before any graph.
    void on_first_graph(std::function<void(const ggml_cgraph *)> listener);

    /// For tests: another setting for each graph.
    void make_restless();

    // What may change while graphs are computed. None of these waits for one.

    /// The most that the cache may take from now on, even where memory would allow more; empty: all that it
    /// was made with. What is in use now goes when it no longer is. Before there is a cache it holds from
    /// when it is made. Errors: InvalidArgument (less than one token needs).
    Status limit_cache(std::optional<uint64_t> bytes);

    /// Gives the memory of all slices back that are not in use, and returns how many bytes; the cache fills
    /// again.
    uint64_t trim();

    /// As TuningOptions::lookahead, from the next graph on. What the run has found out is forgotten. Errors:
    /// Unsupported (the model was loaded without guessing).
    Status set_lookahead(std::optional<uint32_t> experts);
    [[nodiscard]] std::optional<uint32_t> lookahead() const;

    /// As LossyOptions::drop_cold and substitute, from the next graph on.
    void set_lossy(float drop_cold, float substitute);
    [[nodiscard]] LossyOptions lossy() const;

    /// Where dense weights were when a graph began not long ago; empty before the first. The model may be
    /// gone by now, and they with it: for asking about addresses, not for reading.
    [[nodiscard]] std::vector<platform::ByteRange> dense_ranges() const;

    [[nodiscard]] std::vector<SettledSetting> settled() const;
    [[nodiscard]] uint64_t tokens_tried() const;
    [[nodiscard]] bool looks_ahead() const;

private:
    void time_since_last_graph();
    void apply_lossy();
    void note_dense_ranges();
    Status make_cache_locked(uint64_t untouched_bytes);
    [[nodiscard]] uint64_t slices_read() const;

    StreamedStore &store_;
    const RuntimeOptions options_;
    storage::SwitchedReadEngine &reads_;
    std::optional<residency::PressureWatch> pressure_; ///< made with the cache
    std::optional<residency::HotSet> hot_set_;
    std::function<void(const ggml_cgraph *)> on_first_graph_; ///< empty: nobody is told

    std::atomic<uint64_t> most_cache_bytes_{UINT64_MAX}; ///< that limit_cache() allows
    Clock::time_point ranges_noted_;                     ///< under the compute lock
    std::optional<Clock::time_point> ended_;             ///< the last graph; under the compute lock

    mutable std::mutex mutex_; ///< guards the tuning, what follows it and the error; after the compute lock
    std::optional<RunTuning> tuning_;
    TuningOptions given_;
    LossyOptions lossy_;
    bool lossy_changed_ = false; ///< and the store does not know yet
    std::vector<platform::ByteRange> dense_ranges_;
    bool restless_ = false;
    int most_threads_ = 0; ///< that the tuning knows of

    // Of the graph that computes.
    bool is_judged_ = false; ///< a token whose time tells about the settings
    Clock::time_point begun_;
    uint64_t read_before_ = 0;
};

} // namespace sluice::streaming
