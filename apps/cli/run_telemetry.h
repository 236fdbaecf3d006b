// The files and streams that a run was asked to report to: --csv, --progress, --decode-trace.
#pragma once

#include "run_flags.h"

#include "session/model.h"
#include "session/session.h"
#include "telemetry/csv_writer.h"
#include "telemetry/node_writer.h"
#include "telemetry/progress_writer.h"

#include <memory>
#include <string_view>

namespace sluice::cli {

/// All of them at once; those that were not asked for are passed over. Writes that fail are kept in status(),
/// and the run is to end. Outlives the session it is attached to. Not thread-safe.
class RunTelemetry {
public:
    /// Makes the files, before anything that takes long. Errors: what can't be written, by name.
    Status open(const RunFlags &flags);

    /// What was decided. `model` is the path as it may be shown: the user's own.
    void planned(RunPlan plan, const std::string &model);

    void loading(float fraction);
    void loaded(const ModelInfo &model);

    /// Asks the session that is to be made with `options` to report here.
    void attach(SessionOptions &options);

    void started(const RunFlags &flags, const ModelOptions &options, const Model &model,
                 const Session &session);
    void answer(size_t prompt_tokens);
    void text(std::string_view piece);
    void done(StopReason reason);

    /// Totals, and how the run ended. `model` and `session` are null if it did not come so far. Returns the
    /// first write that failed.
    Status finish(const Status &outcome, const Model *model, const Session *session);

    /// The first write that failed, if one did.
    [[nodiscard]] Status status() const;

private:
    std::string model_; ///< as it may be shown
    std::unique_ptr<telemetry::CsvWriter> csv_;
    std::unique_ptr<telemetry::ProgressWriter> progress_;
    std::unique_ptr<telemetry::NodeWriter> nodes_;
};

} // namespace sluice::cli
