// What the OpenMP runtime that ggml's compute threads come from makes of the user's variables. Without such a
// runtime (ggml's own pool computes then) there is nothing to say.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice::platform {

/// The most threads that compute together (OMP_THREAD_LIMIT); empty: no limit. OMP_NUM_THREADS is none, since
/// ggml names a number with each graph.
std::optional<int> runtime_thread_limit();

/// Processors that the runtime binds compute threads to (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY),
/// ascending; empty if it binds none.
std::vector<size_t> runtime_places();

/// For a thread of ours that does not compute: a thread is born with the affinity of the one that starts it,
/// and the runtime may have bound that. Lets the calling thread run where the process might at its start.
void leave_runtime_places();

/// A sentence for each variable that makes a run far slower, or another than planned.
std::vector<std::string> runtime_remarks();

} // namespace sluice::platform
