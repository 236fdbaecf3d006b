// For how long the scheduler lets a thread run before others of its core get their turn.
#pragma once

#include <chrono>
#include <optional>

namespace sluice::platform {

/// Asks for that slice for the calling thread and leaves policy and nice value as they are, which needs no
/// privilege. A thread with a short slice gets no more of a core than before, but gets it sooner after it
/// wakes up. Linux 6.12 and later; older kernels ignore it. Does nothing on other systems, on Android (whose
/// filters end a process for such a call) and for a thread whose policy is not the ordinary one
/// (SCHED_OTHER): whoever set that knows better. A refusal is ignored.
void set_time_slice(std::chrono::nanoseconds slice);

/// The calling thread's slice; empty if the system does not say.
std::optional<std::chrono::nanoseconds> time_slice();

} // namespace sluice::platform
