// Background reads by a pool of threads, each doing one positional read at a time.
#include "storage/read_engine.h"

#include "storage/read_lanes.h"
#include "storage/read_tally.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::storage {
namespace {

constexpr int most_lanes = 64;

class ThreadReadEngine final : public IReadEngine {
public:
    Status start(int lanes) { return lanes_.start(lanes); }

    void submit(std::span<ReadRequest> requests) override {
        JobList jobs = make_jobs(requests); // all that can fail comes first
        if (!jobs.empty()) {
            tally_.begin(jobs.size());
            lanes_.push(std::move(jobs));
        }
    }

    void set_width(int width) override {
        // Those that the system does not give are missed by nobody: fewer do the same reads.
        static_cast<void>(lanes_.start(std::min(width, most_lanes)));
        lanes_.set_limit(width);
    }

    [[nodiscard]] ReadCounters counters() const override { return tally_.counters(); }

private:
    ReadTally tally_;
    ReadLanes lanes_{tally_}; ///< goes first, and finishes what is queued
};

} // namespace

Result<std::unique_ptr<IReadEngine>> make_thread_read_engine(int lanes) {
    if (lanes < 1 || lanes > most_lanes) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} read lanes asked for; 1 to {} are possible", lanes, most_lanes));
    }
    auto engine = std::make_unique<ThreadReadEngine>();
    if (Status started = engine->start(lanes); !started) {
        return fail(started.error());
    }
    return engine;
}

} // namespace sluice::storage
