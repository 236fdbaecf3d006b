#include "engine/pressure.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sluice::engine {

namespace {

using Clock = std::chrono::steady_clock;

// Asking takes about a tenth of a millisecond.
constexpr std::chrono::milliseconds kPause{250};

// Growth of others that is none: the kernel charges in batches, and buffers of its own.
constexpr uint64_t kNoise = uint64_t{8} << 20U;

double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

/// What others in the control group hold. File pages are in neither number: the group's usage leaves those
/// out that can be reclaimed, and ours are not anonymous. Page tables are the group's, but ours.
std::optional<uint64_t> others(const MemoryMoment &moment) {
    if (!moment.system.cgroup_usage || !moment.process.anonymous) {
        return std::nullopt;
    }
    const uint64_t ours = *moment.process.anonymous + *moment.process.anonymous / 512;
    return *moment.system.cgroup_usage - std::min(*moment.system.cgroup_usage, ours);
}

/// Nothing where one of them is unknown; 0 where the second is larger.
std::optional<uint64_t> difference(std::optional<uint64_t> from, std::optional<uint64_t> taken) {
    return from && taken ? std::optional(*from - std::min(*from, *taken)) : std::nullopt;
}

} // namespace

PressureWatch::PressureWatch()
    : PressureWatch(
          [] {
              return MemoryMoment{storage::read_memory_facts(), storage::read_process_memory()};
          },
          kPause) {
}

PressureWatch::PressureWatch(std::function<MemoryMoment()> look, std::chrono::milliseconds pause)
    : look_(std::move(look)), pause_(pause), next_look_(Clock::now() + pause) {
    const MemoryMoment start = look_();
    cgroup_limit_at_start_ = start.system.cgroup_limit;
    if (const auto at_start = others(start)) {
        others_at_start_ = *at_start + kNoise;
    }
}

void PressureWatch::adjust(residency::ExpertCache &cache) {
    if (Clock::now() < next_look_) {
        return;
    }
    const MemoryMoment now = look_();
    const PressureFacts facts{
        .available = now.system.available,
        .total = now.system.total,
        .cgroup_limit = now.system.cgroup_limit,
        .cgroup_limit_at_start = cgroup_limit_at_start_,
        .cgroup_left = difference(now.system.cgroup_limit, now.system.cgroup_usage),
        .cgroup_others_grew = difference(others(now), others_at_start_),
    };
    const uint64_t before = cache.limit();
    const uint64_t wanted = next_cache_limit(before, cache.plan().arena_bytes, facts);
    if (wanted != before) {
        const uint64_t after = cache.set_limit(wanted);
        if (after < before && !said_) {
            said_ = true;
            std::fprintf(
                stderr,
                "sluice: the system is short of memory (%.0f MiB available): the expert cache shrinks "
                "from %.0f to %.0f MiB until there is more\n",
                mebibytes(storage::usable_memory(now.system).value_or(0)), mebibytes(before),
                mebibytes(after));
        }
    }
    next_look_ = Clock::now() + pause_;
}

} // namespace sluice::engine
