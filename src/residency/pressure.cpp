#include "residency/pressure.h"

#include "base/notice.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::residency {

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
std::optional<uint64_t> others(const platform::GroupMemory &group, const platform::ProcessMemory &process) {
    if (!group.usage || !process.anonymous) {
        return std::nullopt;
    }
    const uint64_t ours = *process.anonymous + *process.anonymous / 512;
    return *group.usage - std::min(*group.usage, ours);
}

/// One group now, beside itself at the start if it had a limit then.
GroupPressure pressure_in(const platform::GroupMemory &now, const MemoryMoment &moment,
                          const MemoryMoment &start) {
    GroupPressure group{.limit = now.limit};
    if (now.usage) {
        group.left = now.left();
    }
    const auto &groups = start.system.groups;
    const auto then = std::find_if(groups.begin(), groups.end(), [&now](const platform::GroupMemory &other) {
        return other.directory == now.directory;
    });
    if (then == groups.end()) {
        return group;
    }
    group.limit_at_start = then->limit;
    if (then->usage) {
        group.left_at_start = then->left();
    }
    const auto others_now = others(now, moment.process);
    const auto others_then = others(*then, start.process);
    if (others_now && others_then) {
        group.others_grew = *others_now - std::min(*others_now, *others_then + kNoise);
    }
    return group;
}

PressureFacts pressure_facts(const MemoryMoment &now, const MemoryMoment &start) {
    PressureFacts facts{.available = now.system.available, .total = now.system.total};
    for (const platform::GroupMemory &group : now.system.groups) {
        facts.groups.push_back(pressure_in(group, now, start));
    }
    return facts;
}

} // namespace

PressureWatch::PressureWatch()
    : PressureWatch(
          [] {
              return MemoryMoment{platform::read_memory_facts(), platform::read_process_memory()};
          },
          kPause) {
}

PressureWatch::PressureWatch(std::function<MemoryMoment()> look, std::chrono::milliseconds pause)
    : look_(std::move(look)), pause_(pause), start_(look_()), next_look_(Clock::now() + pause) {
}

void PressureWatch::adjust(ExpertCache &cache, uint64_t most) {
    if (Clock::now() < next_look_) {
        return;
    }
    const uint64_t arena = std::min<uint64_t>(cache.plan().arena_bytes, most);
    const MemoryMoment now = look_();
    const PressureFacts facts = pressure_facts(now, start_);
    const uint64_t before = cache.limit();
    uint64_t wanted = next_cache_limit(before, arena, facts);
    if (wanted < before) {
        // Slots that were never filled are no memory: what is lacking comes from what is held.
        const uint64_t held = std::min<uint64_t>(before, cache.held_bytes());
        wanted = std::min(wanted, next_cache_limit(held, arena, facts));
    }
    if (wanted != before) {
        const uint64_t after = cache.set_limit(wanted);
        if (after < before && wanted < arena && !said_) {
            said_ = true;
            notice(fmt::format("the system is short of memory ({:.0f} MiB available): the expert cache "
                               "shrinks from {:.0f} to {:.0f} MiB until there is more",
                               mebibytes(platform::usable_memory(now.system).value_or(0)), mebibytes(before),
                               mebibytes(after)));
        }
    }
    next_look_ = Clock::now() + pause_;
}

} // namespace sluice::residency
