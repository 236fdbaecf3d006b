// Programs run to their end in a process of their own.
#pragma once

#include "base/error.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::platform {

/// How a program ended, and what it wrote.
struct ProgramRun {
    int exit_code = -1; ///< -1 if a signal ended it
    int signal = 0;     ///< the signal that ended it, or 0
    std::string out;    ///< its standard output
    std::string err;    ///< the end of its standard error, at most 64 KiB
};

/// Runs the program at `path` with `arguments` (without its name) and nothing on its standard input. `go_on`
/// is asked at least ten times a second, and at once after a signal to this process; when it says no, the
/// program is killed. Where the system can, it is killed as well when this process ends. No other thread may
/// be waiting for children. Errors: Io (it can't be started), Cancelled.
Result<ProgramRun> run_program(const std::string &path, const std::vector<std::string> &arguments,
                               const std::function<bool()> &go_on);

/// Path of the program that this process runs; empty where the system does not tell.
std::string own_program();

} // namespace sluice::platform
