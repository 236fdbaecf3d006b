// Samples of all streamed models, a second apart while somebody looks.
#pragma once

#include "counts.h"
#include "flash_model.h"
#include "heat.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace sluice::flash {

/// About the time since the sample before.
struct Sample {
    int64_t time_ms = 0; ///< Unix time of its end
    double interval_ms = 0;
    Counts counts;
    std::optional<uint64_t> resident_bytes; ///< of the process
    uint64_t cache_held_bytes = 0;
};

/// What is known of one model.
struct Watched {
    std::shared_ptr<IFlashModel> model;
    Sample newest;
    std::vector<Sample> history; ///< oldest first, the newest not among them
    std::vector<LayerHeat> heat;
    DenseResidency dense;
};

/// Thread-safe.
class Monitor {
public:
    /// `models` outlives it. Samples are taken by a thread of its own while somebody looks, or only by
    /// take_sample() if `starts` is false. While nobody does, that thread sleeps.
    explicit Monitor(IFlashModels &models, bool starts = true);
    ~Monitor();
    Monitor(const Monitor &) = delete;
    Monitor &operator=(const Monitor &) = delete;

    /// Samples kept of each model.
    static constexpr size_t kKept = 300;
    static constexpr std::chrono::milliseconds kPace{1000};
    /// Whoever looked this lately is taken to look still.
    static constexpr std::chrono::milliseconds kWatched = 3 * kPace;
    /// Who asks for the state at least this often is told of all that was computed in between.
    static constexpr std::chrono::milliseconds kForgotten{30000};

    /// Of models in which nothing was computed since the last sample the history keeps none. While a graph
    /// takes longer than the pace its model's sample is put off. What was computed while nobody looked for
    /// longer than kForgotten is in no sample.
    void take_sample();

    /// Somebody looks, once: takes a sample if the newest is older than the pace. Does nothing if samples are
    /// taken by hand.
    void look();

    /// Those that are loaded now and were sampled.
    [[nodiscard]] std::vector<Watched> models() const;

    /// Somebody looks: sleeps until there are more than `seen` samples, at most twice kPace. Returns how
    /// many there are; empty: no more will come.
    std::optional<uint64_t> wait_for_sample(uint64_t seen);

    /// Nobody waits any more, and nobody ever will: for a server that is to stop.
    void close();

private:
    using Clock = std::chrono::steady_clock;
    /// Of one model, which it does not keep from going.
    struct Record {
        Counts totals;
        Clock::time_point taken;
        Sample newest;
        std::deque<Sample> history;
        Heat heat;
        DenseResidency dense;
        Clock::time_point dense_looked;
    };
    void run();
    void sample(const IFlashModel &model, Record &record, std::optional<uint64_t> resident) const;

    IFlashModels &models_;
    const bool starts_;
    mutable std::mutex mutex_; ///< guards all that follows
    std::condition_variable changed_;
    std::map<uint64_t, Record> records_; ///< by the model's id
    uint64_t samples_ = 0;
    Clock::time_point newest_;  ///< when the newest sample was taken
    Clock::time_point watched_; ///< until then somebody is taken to look
    bool closed_ = false;
    bool ending_ = false;
    std::thread thread_;
};

} // namespace sluice::flash
