// Starting the threads on which reads are performed and their callbacks run.
#pragma once

#include "base/error.h"

#include <functional>
#include <string>
#include <thread>

namespace sluice::platform {

/// Starts a thread that runs `body`, is called `name` (at most 15 characters), and is deaf to all signals but
/// its own faults: Ctrl-C belongs to the main thread. It may run wherever the process may, though an OpenMP
/// runtime has bound the thread that starts it. Where the system can, it gets a core soon after it
/// wakes up, whoever computes there. Errors: OutOfMemory if the system gives none.
Result<std::thread> start_reader_thread(const std::string &name, std::function<void()> body);

} // namespace sluice::platform
