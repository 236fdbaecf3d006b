// What may be set while a run goes on, and how: the controller's knobs with hands on them.
#pragma once

#include "options/options.h"
#include "platform/processor_waits.h"
#include "storage/switched_read_engine.h"
#include "streaming/runtime/run_controller.h"
#include "streaming/weights/streamed_store.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::streaming {

/// Reads of slices in flight to begin with, where nobody said how many: deep enough for a device, and no
/// deeper, since a slice that is waited for comes the later the more are read beside it.
inline constexpr int kRingDepth = 4;
/// Threads that read to begin with. They take longer to get going than a ring, so it takes more.
inline constexpr int kReaderThreads = 8;

/// What the user has decided, and no run therefore tries.
struct TuningOptions {
    IoEngine io_engine = IoEngine::Auto;
    int io_depth = 0;   ///< 0: not given
    int io_threads = 0; ///< 0: not given
    std::optional<uint32_t> lookahead = {};
};

/// Of one model, or of one session on a model that is in memory. Not thread-safe.
class RunTuning {
public:
    /// `store` and `reads` are null together, for a model in memory; else they outlive it. `most_threads`: 0
    /// if how many compute is not to be decided.
    RunTuning(StreamedStore *store, storage::SwitchedReadEngine *reads, const TuningOptions &given,
              int most_threads);

    /// Before a batch: sets what it is to be computed with, which for a `token` may be part of a trial.
    /// Returns how many threads are to compute, at most as many as may.
    int prepare(bool token);

    /// After a token that was computed alone: how long it took in seconds, and whether slices were read.
    void learn(double seconds, bool read);

    /// For tests: another setting for each batch, all combinations in turn.
    void make_restless() { restless_ = true; }

    [[nodiscard]] std::vector<SettledSetting> outcome() const { return controller_.outcome(); }
    [[nodiscard]] size_t tokens_tried() const { return controller_.tokens_tried(); }
    /// Whether experts are guessed for a token: as given or as settled, whatever is being tried.
    [[nodiscard]] bool looks_ahead() const;

private:
    std::vector<Knob> make_knobs();
    void add_thread_knob(std::vector<Knob> &knobs);
    void add_reading_knob(std::vector<Knob> &knobs);
    void add_lookahead_knob(std::vector<Knob> &knobs);
    [[nodiscard]] std::vector<storage::ReadSetting> readings() const;
    [[nodiscard]] std::vector<size_t> restless_setting() const;
    [[nodiscard]] std::optional<size_t> choice(std::optional<size_t> knob,
                                               std::span<const size_t> setting) const;
    [[nodiscard]] uint32_t lookahead(std::span<const size_t> setting) const;
    void set_reading(const storage::ReadSetting &reading);

    StreamedStore *const store_;
    storage::SwitchedReadEngine *const reads_;
    const TuningOptions given_;
    const int most_threads_;
    std::vector<int> threads_;
    std::vector<storage::ReadSetting> readings_;
    std::optional<size_t> thread_knob_; ///< empty: nothing to decide
    std::optional<size_t> reading_knob_;
    std::optional<size_t> lookahead_knob_;
    RunController controller_; ///< made with the knobs
    platform::ProcessorWaits waits_;
    size_t tokens_ = 0;     ///< learned from
    bool read_last_ = true; ///< the last token read slices
    size_t batches_ = 0;
    bool restless_ = false;
};

} // namespace sluice::streaming
