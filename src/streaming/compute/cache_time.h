// Counts a scope as cache management.
#pragma once

#include "streaming/compute/step_clock.h"
#include "streaming/weights/streamed_store.h"

namespace sluice::streaming {

/// Counts its lifetime as cache management. For what one thread does while no other has anything to multiply.
class CacheTime {
public:
    explicit CacheTime(StreamedStore &store) : store_(store) {}
    ~CacheTime() { store_.counters.cache_nanoseconds += nanoseconds_since(start_); }
    CacheTime(const CacheTime &) = delete;
    CacheTime &operator=(const CacheTime &) = delete;

private:
    StreamedStore &store_;
    const Clock::time_point start_ = Clock::now();
};

} // namespace sluice::streaming
