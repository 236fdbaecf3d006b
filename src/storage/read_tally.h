// What a read engine owes and has done: counts its requests and answers them.
#pragma once

#include "storage/read_engine.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace sluice::storage {

/// The books of one read engine. Thread-safe.
class ReadTally {
public:
    /// `requests` more were submitted. Comes before any of them can finish.
    void begin(size_t requests);

    /// Counts a request, then calls its `done`, so that whoever waited for that sees it in the counters.
    void finish(ReadRequest &request, Status status, bool fell_back);

    /// Waits until every request begun was answered, those begun by callbacks meanwhile included.
    void wait_until_idle();

    [[nodiscard]] ReadCounters counters() const;

private:
    using Clock = std::chrono::steady_clock;

    mutable std::mutex mutex_; ///< guards everything below
    std::condition_variable idle_;
    size_t in_flight_ = 0;         ///< begun, not yet counted
    size_t unanswered_ = 0;        ///< begun, callback not yet returned
    Clock::time_point busy_since_; ///< meaningful while in_flight_ > 0
    ReadCounters totals_;
};

} // namespace sluice::storage
