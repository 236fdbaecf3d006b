// Counts a scope as cache management.
#pragma once

#include "backend/step_clock.h"
#include "backend/streamed_store.h"

namespace sluice::backend {

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

} // namespace sluice::backend
