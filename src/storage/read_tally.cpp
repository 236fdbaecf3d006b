#include "storage/read_tally.h"

#include <utility>

namespace sluice::storage {
namespace {

uint64_t nanoseconds(std::chrono::steady_clock::duration span) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(span).count());
}

} // namespace

void ReadTally::begin(size_t requests) {
    const std::lock_guard lock(mutex_);
    if (in_flight_ == 0) {
        busy_since_ = Clock::now();
    }
    in_flight_ += requests;
    unanswered_ += requests;
}

void ReadTally::finish(ReadRequest &request, Status status, bool fell_back) {
    {
        const std::lock_guard lock(mutex_);
        ++totals_.reads;
        totals_.fallbacks += fell_back ? 1 : 0;
        if (status) {
            totals_.bytes += request.needed;
            // A buffered read asks for what is needed, a direct one for whole blocks.
            totals_.device_bytes +=
                request.access == platform::Access::Direct ? request.into.size() : request.needed;
        } else {
            ++totals_.errors;
        }
        if (--in_flight_ == 0) {
            totals_.busy_nanoseconds += nanoseconds(Clock::now() - busy_since_);
        }
    }
    if (request.done) {
        request.done(std::move(status));
    }
    const std::lock_guard lock(mutex_);
    if (--unanswered_ == 0) {
        // Under the lock: once it is released, a waiting destructor may take this object away.
        idle_.notify_all();
    }
}

void ReadTally::wait_until_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return unanswered_ == 0; });
}

ReadCounters ReadTally::counters() const {
    const std::lock_guard lock(mutex_);
    ReadCounters now = totals_;
    if (in_flight_ > 0) {
        now.busy_nanoseconds += nanoseconds(Clock::now() - busy_since_);
    }
    return now;
}

} // namespace sluice::storage
