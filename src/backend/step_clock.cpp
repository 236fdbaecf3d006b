#include "backend/step_clock.h"

#include <algorithm>

namespace sluice::backend {

void StepClock::reset() {
    waiting_ = managing_ = done_ = multiplying_ = 0;
}

void BeginClock::reset() {
    done_.store(0, std::memory_order_relaxed);
    last_done_.store(0, std::memory_order_relaxed);
}

void BeginClock::others_done() {
    const Clock::rep now = Clock::now().time_since_epoch().count();
    Clock::rep last = last_done_.load(std::memory_order_relaxed);
    while (last < now && !last_done_.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
    }
    done_.fetch_add(1, std::memory_order_release);
}

uint64_t BeginClock::held_up_since(Clock::time_point start, int threads) const {
    const auto now = Clock::now();
    if (done_.load(std::memory_order_acquire) < threads - 1) {
        return 0;
    }
    const Clock::time_point last(Clock::duration(last_done_.load(std::memory_order_relaxed)));
    return last < now ? nanoseconds_between(std::max(start, last), now) : 0;
}

int &StepClock::count(Doing what) {
    switch (what) {
    case Doing::Waiting:
        return waiting_;
    case Doing::Managing:
        return managing_;
    case Doing::Done:
        return done_;
    case Doing::Multiplying:
        break;
    }
    return multiplying_;
}

void StepClock::change(Doing from, Doing to, int threads, std::atomic<uint64_t> &waited,
                       std::atomic<uint64_t> &managed) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const bool nobody_multiplies = waiting_ + managing_ + done_ == threads;
    if (nobody_multiplies && managing_ + waiting_ > 0) {
        (managing_ > 0 ? managed : waited) += nanoseconds_between(last_, now);
    }
    last_ = now;
    --count(from);
    ++count(to);
}

} // namespace sluice::backend
