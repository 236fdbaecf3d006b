#include "platform/time_slice.h"

#if defined(__linux__) && !defined(__ANDROID__)
#include <cstdint>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sluice::platform {

#if defined(__linux__) && !defined(__ANDROID__) && defined(SYS_sched_setattr) && defined(SYS_sched_getattr)

namespace {

/// The kernel's sched_attr of 2020. C libraries have it only since 2024, and in Linux's own header it
/// collides with theirs.
struct SchedulingAttributes {
    uint32_t size = sizeof(SchedulingAttributes);
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0; ///< nanoseconds; for the ordinary policy the slice
    uint64_t deadline = 0;
    uint64_t period = 0;
    uint32_t least_utilisation = 0;
    uint32_t most_utilisation = 0;
};
static_assert(sizeof(SchedulingAttributes) == 56);

constexpr pid_t kThisThread = 0;

/// Those of the calling thread, if its policy is the ordinary one.
std::optional<SchedulingAttributes> ordinary_attributes() {
    SchedulingAttributes attributes;
    const long failed = ::syscall(SYS_sched_getattr, kThisThread, &attributes, sizeof(attributes), 0U);
    if (failed != 0 || attributes.policy != SCHED_OTHER) {
        return std::nullopt;
    }
    return attributes;
}

} // namespace

void set_time_slice(std::chrono::nanoseconds slice) {
    if (auto attributes = ordinary_attributes()) {
        attributes->size = sizeof(SchedulingAttributes);
        attributes->runtime = static_cast<uint64_t>(slice.count());
        ::syscall(SYS_sched_setattr, kThisThread, &*attributes, 0U);
    }
}

std::optional<std::chrono::nanoseconds> time_slice() {
    const auto attributes = ordinary_attributes();
    if (!attributes || attributes->runtime == 0) {
        return std::nullopt; // kernels before 6.12 leave it at 0
    }
    return std::chrono::nanoseconds(attributes->runtime);
}

#else

void set_time_slice(std::chrono::nanoseconds slice) {
    static_cast<void>(slice);
}

std::optional<std::chrono::nanoseconds> time_slice() {
    return std::nullopt;
}

#endif

} // namespace sluice::platform
