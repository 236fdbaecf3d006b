// On which processors the system may run a thread.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::platform {

/// Processors of the calling thread, ascending; empty if the system does not say.
std::vector<size_t> affinity();

/// Those of the process's first thread before any of its code ran but this: an OpenMP runtime told to bind
/// threads binds that one as well, as soon as it is loaded. Safe on any thread.
std::vector<size_t> affinity_at_start();

/// Lets the calling thread run on `processors`. A refusal is ignored.
void set_affinity(const std::vector<size_t> &processors);

} // namespace sluice::platform
