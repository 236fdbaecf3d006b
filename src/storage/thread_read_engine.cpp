// Background reads by a pool of threads, each doing one positional read at a time.
#include "storage/read_engine.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::storage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int most_lanes = 64;

/// While it lives, threads started by this one are born deaf to signals: Ctrl-C belongs to the main thread.
class QuietBirth {
public:
    QuietBirth() {
        sigset_t quiet;
        sigfillset(&quiet);
        // Faults of the thread itself must stay deliverable, for crash reports.
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
            sigdelset(&quiet, fault);
        }
        restore_ = pthread_sigmask(SIG_BLOCK, &quiet, &before_) == 0;
    }
    ~QuietBirth() {
        if (restore_) {
            pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        }
    }
    QuietBirth(const QuietBirth &) = delete;
    QuietBirth &operator=(const QuietBirth &) = delete;

private:
    sigset_t before_ = {};
    bool restore_ = false;
};

void name_this_thread(int lane) {
    const std::string name = fmt::format("sluice-read-{}", lane); // at most 15 characters
#ifdef __APPLE__
    pthread_setname_np(name.c_str());
#else
    pthread_setname_np(pthread_self(), name.c_str());
#endif
}

uint64_t nanoseconds(Clock::duration span) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(span).count());
}

class ThreadReadEngine final : public IReadEngine {
public:
    ThreadReadEngine() = default;
    ~ThreadReadEngine() override;
    ThreadReadEngine(const ThreadReadEngine &) = delete;
    ThreadReadEngine &operator=(const ThreadReadEngine &) = delete;

    Status start(int lanes);
    void submit(std::span<ReadRequest> requests) override;
    [[nodiscard]] ReadCounters counters() const override;

private:
    void serve(int lane);
    /// Does one request, counts it, then tells its owner.
    void perform(ReadRequest &request);
    void count(const ReadRequest &request, bool succeeded, bool fell_back);

    std::vector<std::thread> threads_; ///< touched only by start() and the destructor

    mutable std::mutex mutex_; ///< guards everything below
    std::condition_variable work_;
    std::deque<ReadRequest> queue_;
    bool stopping_ = false;
    size_t in_flight_ = 0;         ///< queued or being read
    Clock::time_point busy_since_; ///< meaningful while in_flight_ > 0
    ReadCounters totals_;
};

ThreadReadEngine::~ThreadReadEngine() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread &thread : threads_) {
        thread.join();
    }
}

Status ThreadReadEngine::start(int lanes) {
    const QuietBirth quiet;
    try {
        threads_.reserve(static_cast<size_t>(lanes));
        for (int lane = 0; lane < lanes; ++lane) {
            threads_.emplace_back([this, lane] { serve(lane); });
        }
    } catch (const std::system_error &error) {
        return fail(ErrorCode::OutOfMemory, fmt::format("cannot start reader thread {} of {}: {}",
                                                        threads_.size() + 1, lanes, error.code().message()));
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("no memory for {} reader threads", lanes));
    }
    return {};
}

void ThreadReadEngine::submit(std::span<ReadRequest> requests) {
    if (requests.empty()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        queue_.insert(queue_.end(), requests.begin(), requests.end());
        if (in_flight_ == 0) {
            busy_since_ = Clock::now();
        }
        in_flight_ += requests.size();
    }
    // threads_ no longer changes: start() was done before anyone could submit.
    if (requests.size() >= threads_.size()) {
        work_.notify_all();
        return;
    }
    for (size_t i = 0; i < requests.size(); ++i) {
        work_.notify_one();
    }
}

ReadCounters ThreadReadEngine::counters() const {
    const std::lock_guard lock(mutex_);
    ReadCounters now = totals_;
    if (in_flight_ > 0) {
        now.busy_nanoseconds += nanoseconds(Clock::now() - busy_since_);
    }
    return now;
}

void ThreadReadEngine::serve(int lane) {
    name_this_thread(lane);
    while (true) {
        ReadRequest request;
        {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            // Stopping means no more waiting, not no more work: every request is promised its callback.
            if (queue_.empty()) {
                return;
            }
            request = std::move(queue_.front());
            queue_.pop_front();
        }
        perform(request);
    }
}

void ThreadReadEngine::perform(ReadRequest &request) {
    bool fell_back = false;
    Status status = request.file == nullptr
                        ? Status(fail(ErrorCode::InvalidArgument, "a read request names no file"))
                        : read_fully(*request.file, request.offset, request.into, request.needed,
                                     request.access, &fell_back);
    // Counted before the owner is told, so that whoever waited for the callback sees it in the counters.
    count(request, status.has_value(), fell_back);
    if (request.done) {
        request.done(std::move(status));
    }
}

void ThreadReadEngine::count(const ReadRequest &request, bool succeeded, bool fell_back) {
    const std::lock_guard lock(mutex_);
    ++totals_.reads;
    totals_.fallbacks += fell_back ? 1 : 0;
    if (succeeded) {
        totals_.bytes += request.needed;
        // A buffered read asks for what is needed, a direct one for whole blocks.
        totals_.device_bytes += request.access == Access::Direct ? request.into.size() : request.needed;
    } else {
        ++totals_.errors;
    }
    if (--in_flight_ == 0) {
        totals_.busy_nanoseconds += nanoseconds(Clock::now() - busy_since_);
    }
}

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
