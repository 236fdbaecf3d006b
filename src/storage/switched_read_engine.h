// A read engine that can be another from one moment to the next, so that a run can try which is quicker.
#pragma once

#include "storage/read_engine.h"

#include <atomic>
#include <memory>
#include <string>

namespace sluice::storage {

/// Hands requests to the engine selected last; an engine that is not selected any more finishes what it has.
/// Thread-safe, select() called by one thread at a time.
class SwitchedReadEngine final : public IReadEngine {
public:
    /// Reads that can be in flight at most, whatever is selected.
    static constexpr int kMostWidth = 16;

    /// Begins with the engine wished for (make_read_engine) at the wish's width. `note` is as there.
    /// Errors: as make_read_engine.
    static Result<std::unique_ptr<SwitchedReadEngine>> create(const ReadEngineWish &wish, std::string &note);

    /// From now on requests go there; an engine is made when it is first selected. Errors, with all as it
    /// was: as make_read_engine, Unsupported where there is no io_uring.
    Status select(const ReadSetting &setting);

    [[nodiscard]] ReadSetting setting() const { return setting_; }

    void submit(std::span<ReadRequest> requests) override;
    void set_width(int width) override;
    /// Of all engines added up.
    [[nodiscard]] ReadCounters counters() const override;

private:
    SwitchedReadEngine() = default;
    void adopt(ReadEngineKind kind, std::unique_ptr<IReadEngine> engine);
    std::unique_ptr<IReadEngine> &engine_of(ReadEngineKind kind);

    ReadSetting setting_;
    std::unique_ptr<IReadEngine> uring_;
    std::unique_ptr<IReadEngine> threads_;
    // What other threads see of the two; once there, an engine stays.
    std::atomic<IReadEngine *> counted_uring_{nullptr};
    std::atomic<IReadEngine *> counted_threads_{nullptr};
    std::atomic<IReadEngine *> selected_{nullptr};
};

} // namespace sluice::storage
