#include "storage/read_lanes.h"

#include "platform/reader_thread.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <utility>

namespace sluice::storage {

JobList make_jobs(std::span<const ReadRequest> requests) {
    JobList jobs;
    for (const ReadRequest &request : requests) {
        jobs.push_back({request, 0});
    }
    return jobs;
}

void perform(ReadJob &job, ReadTally &tally) {
    ReadRequest &request = job.request;
    if (request.file == nullptr) {
        tally.finish(request, fail(ErrorCode::InvalidArgument, "a read request names no file"), false);
        return;
    }
    // A direct read could not go on from inside a block.
    const bool leaves_direct =
        request.access == platform::Access::Direct && job.arrived % request.file->alignment() != 0;
    bool fell_back = false;
    Status status;
    try {
        status =
            platform::read_fully(*request.file, request.offset + job.arrived,
                                 request.into.subspan(job.arrived), request.needed - job.arrived,
                                 leaves_direct ? platform::Access::Buffered : request.access, &fell_back);
    } catch (const std::bad_alloc &) {                          // a thread that reads has nobody to throw to
        status = fail(ErrorCode::OutOfMemory, "out of memory"); // short enough to need none
    }
    tally.finish(request, std::move(status), fell_back || leaves_direct);
}

ReadLanes::~ReadLanes() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread &thread : threads_) {
        thread.join();
    }
}

Status ReadLanes::start(int lanes) {
    {
        const std::lock_guard lock(mutex_);
        threads_.reserve(static_cast<size_t>(lanes));
    }
    for (size_t lane = threads_.size(); lane < static_cast<size_t>(lanes); ++lane) {
        Result<std::thread> thread =
            platform::start_reader_thread(fmt::format("sluice-read-{}", lane), [this] { serve(); });
        if (!thread) {
            return fail(thread.error().with_context(fmt::format("{} read lanes", lanes)));
        }
        const std::lock_guard lock(mutex_);
        threads_.push_back(std::move(*thread));
    }
    return {};
}

void ReadLanes::push(JobList jobs) {
    const size_t count = jobs.size();
    bool wakes_all = false;
    {
        const std::lock_guard lock(mutex_);
        queue_.splice(queue_.end(), jobs);
        wakes_all = count >= threads_.size();
    }
    if (wakes_all) {
        work_.notify_all();
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        work_.notify_one();
    }
}

void ReadLanes::set_limit(int lanes) {
    {
        const std::lock_guard lock(mutex_);
        limit_ = static_cast<size_t>(std::max(lanes, 1));
    }
    work_.notify_all();
}

void ReadLanes::serve() {
    while (true) {
        JobList job;
        {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [this] { return stopping_ || (!queue_.empty() && reading_ < limit_); });
            // Stopping means no more waiting, not no more work: every request is promised its callback.
            if (queue_.empty()) {
                return;
            }
            job.splice(job.end(), queue_, queue_.begin());
            ++reading_;
        }
        perform(job.front(), tally_);
        const std::lock_guard lock(mutex_);
        --reading_;
    }
}

} // namespace sluice::storage
