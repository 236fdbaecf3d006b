#include "engine/pressure.h"

#include "storage/memory_facts.h"

#include <cstdio>

namespace sluice::engine {

namespace {

using Clock = std::chrono::steady_clock;

// Asking takes about a tenth of a millisecond.
constexpr auto kPause = std::chrono::milliseconds(250);

double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

} // namespace

PressureWatch::PressureWatch() : next_look_(Clock::now() + kPause) {
    facts_.cgroup_limit_at_start = storage::read_memory_facts().cgroup_limit;
}

void PressureWatch::adjust(residency::ExpertCache &cache) {
    if (Clock::now() < next_look_) {
        return;
    }
    const storage::MemoryFacts now = storage::read_memory_facts();
    facts_.available = now.available;
    facts_.total = now.total;
    facts_.cgroup_limit = now.cgroup_limit;
    const uint64_t before = cache.limit();
    const uint64_t wanted = next_cache_limit(before, cache.plan().arena_bytes, facts_);
    if (wanted != before) {
        const uint64_t after = cache.set_limit(wanted);
        if (after < before && !said_) {
            said_ = true;
            std::fprintf(
                stderr,
                "sluice: the system is short of memory (%.0f MiB available): the expert cache shrinks "
                "from %.0f to %.0f MiB until there is more\n",
                mebibytes(now.available.value_or(0)), mebibytes(before), mebibytes(after));
        }
    }
    next_look_ = Clock::now() + kPause;
}

} // namespace sluice::engine
