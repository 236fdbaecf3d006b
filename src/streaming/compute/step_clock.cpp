#include "streaming/compute/step_clock.h"

namespace sluice::streaming {

void StepClock::reset() {
    waiting_ = managing_ = done_ = multiplying_ = 0;
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

} // namespace sluice::streaming
