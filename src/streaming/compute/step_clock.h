// How long a step's threads were held up together.
//
// Threads wait at different times, and while one of them multiplies, another's waiting costs nothing. So the
// time that counts is the time in which none of them multiplies: if one is busy with the cache it is that,
// else it is waiting for slices. The time until a thread that was woken finds something to multiply belongs
// to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace sluice::streaming {

using Clock = std::chrono::steady_clock;

inline uint64_t nanoseconds_between(Clock::time_point start, Clock::time_point end) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
}

inline uint64_t nanoseconds_since(Clock::time_point start) {
    return nanoseconds_between(start, Clock::now());
}

/// What a compute thread does in a step.
enum class Doing {
    Multiplying, ///< or copying, converting, looking for work: everything that is none of the others
    Waiting,     ///< found nothing to multiply, and has not found anything since
    Managing,    ///< acquires and releases slots
    Done,        ///< has left the step
};

/// One step's threads, added up. Costs one look at the clock for each change; none while all multiply.
class StepClock {
public:
    /// Everybody multiplies from here on. Called while no thread is in the step.
    void reset();

    /// One thread of `threads` goes from one thing to another. The time since the last change goes to
    /// `waited` or `managed` (nanoseconds) if none of the threads multiplied. Thread-safe.
    void change(Doing from, Doing to, int threads, std::atomic<uint64_t> &waited,
                std::atomic<uint64_t> &managed);

private:
    int &count(Doing what);

    std::mutex mutex_;
    Clock::time_point last_; ///< change
    int waiting_ = 0;
    int managing_ = 0;
    int done_ = 0;
    int multiplying_ = 0; ///< only differences: nobody says when a thread comes
};

/// One thread's part in a step, for as long as it is in it.
class StepThread {
public:
    StepThread(StepClock &clock, int threads, std::atomic<uint64_t> &waited, std::atomic<uint64_t> &managed)
        : clock_(clock), threads_(threads), waited_(waited), managed_(managed) {}
    StepThread(const StepThread &) = delete;
    StepThread &operator=(const StepThread &) = delete;

    void now(Doing what) {
        if (what != doing_) {
            clock_.change(doing_, what, threads_, waited_, managed_);
            doing_ = what;
        }
    }

    /// Leaves. Whoever was multiplying to the end need not say so if nobody can have to wait or manage any
    /// more: then `others_may_stop` is false.
    void leave(bool others_may_stop) {
        if (doing_ != Doing::Multiplying || others_may_stop) {
            now(Doing::Done);
        }
    }

private:
    StepClock &clock_;
    const int threads_;
    std::atomic<uint64_t> &waited_;
    std::atomic<uint64_t> &managed_;
    Doing doing_ = Doing::Multiplying;
};

} // namespace sluice::streaming
