// Threads that perform reads one by one through the files themselves.
#pragma once

#include "base/error.h"
#include "storage/read_engine.h"
#include "storage/read_tally.h"

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace sluice::storage {

/// A request under way.
struct ReadJob {
    ReadRequest request;
    size_t arrived = 0; ///< bytes at the start of `request.into` that are there already
};

/// Jobs in order. A list, since moving them on to another one allocates nothing and so cannot fail.
using JobList = std::list<ReadJob>;

/// Copies requests into jobs. Throws std::bad_alloc.
JobList make_jobs(std::span<const ReadRequest> requests);

/// Reads what is missing of a job, falling back from Direct to Buffered as read_fully() does, and finishes it
/// in `tally`.
void perform(ReadJob &job, ReadTally &tally);

/// A pool of threads working a queue of jobs off in order. Thread-safe.
class ReadLanes {
public:
    /// `tally` outlives this object and has begun every job that is pushed.
    explicit ReadLanes(ReadTally &tally) : tally_(tally) {}
    /// Waits for every job to finish.
    ~ReadLanes();
    ReadLanes(const ReadLanes &) = delete;
    ReadLanes &operator=(const ReadLanes &) = delete;

    /// Starts threads until there are `lanes`; not called by two threads at once. Errors: OutOfMemory, with
    /// the threads started before kept.
    Status start(int lanes);

    /// Queues `jobs` and returns at once.
    void push(JobList jobs);

    /// Lets at most `lanes` threads (at least 1) read at once; the others sleep.
    void set_limit(int lanes);

private:
    void serve();

    ReadTally &tally_;
    std::mutex mutex_;                 ///< guards everything below
    std::vector<std::thread> threads_; ///< changed only by start() and the destructor
    std::condition_variable work_;
    JobList queue_;
    size_t limit_ = SIZE_MAX; ///< threads that may read at once
    size_t reading_ = 0;      ///< threads that do
    bool stopping_ = false;
};

} // namespace sluice::storage
