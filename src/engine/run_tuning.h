// What a session may set while it runs, and how: the controller's knobs with hands on them.
#pragma once

#include "engine/model_state.h"
#include "engine/run_controller.h"
#include "sluice/options.h"
#include "storage/switched_read_engine.h"

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::engine {

/// One session's. What belongs to the model (how to read, whether to look ahead) is set by the first session
/// that lives; others leave it as it is. What the user gave is not among the knobs. Not thread-safe.
class RunTuning {
public:
    RunTuning(ModelState &model, const SessionOptions &options);
    ~RunTuning();
    RunTuning(const RunTuning &) = delete;
    RunTuning &operator=(const RunTuning &) = delete;

    /// Before a batch: sets what it is to be computed with. A batch of one token may be part of a trial.
    void prepare(llama_context &context, size_t tokens);

    /// After a token that was computed alone: how long it took in seconds, and whether slices were read.
    void learn(double seconds, bool read);

    [[nodiscard]] std::vector<SettledSetting> outcome() const { return controller_.outcome(); }
    [[nodiscard]] size_t tokens_tried() const { return controller_.tokens_tried(); }

private:
    std::vector<Knob> make_knobs();
    void add_thread_knob(std::vector<Knob> &knobs);
    void add_reading_knob(std::vector<Knob> &knobs);
    void add_lookahead_knob(std::vector<Knob> &knobs);
    [[nodiscard]] std::vector<storage::ReadSetting> readings() const;
    [[nodiscard]] std::vector<size_t> restless_setting() const;
    [[nodiscard]] std::optional<size_t> choice(std::optional<size_t> knob,
                                               std::span<const size_t> setting) const;
    void set_reading(const storage::ReadSetting &reading);

    ModelState &model_;
    const SessionOptions options_;
    const bool owns_reading_; ///< this session sets what belongs to the model
    std::vector<int> threads_;
    std::vector<storage::ReadSetting> readings_;
    std::optional<size_t> thread_knob_; ///< empty: nothing to decide
    std::optional<size_t> reading_knob_;
    std::optional<size_t> lookahead_knob_;
    RunController controller_; ///< made with the knobs
    bool read_last_ = true;    ///< the last token read slices
    size_t batches_ = 0;
    int threads_now_ = 0;
};

} // namespace sluice::engine
