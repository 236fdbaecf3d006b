// Programs run as a user runs them: arguments, streams, signals and limits in; text and exit code out.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace sluice::test {

/// How to run a program.
struct ChildOptions {
    std::string input = {};                   ///< on its stdin, which then ends
    bool keep_stdin_open = false;             ///< the input's end never comes
    std::string stdout_file = {};             ///< where its stdout goes, instead of being captured
    bool close_stdout = false;                ///< it is started without a stdout
    std::optional<size_t> hang_up_after = {}; ///< its stdout's reader goes away after so many bytes
    int signal = 0;                           ///< sent to it once `signal_when` has happened
    std::string signal_when = {}; ///< this text on its stderr; empty: the first byte on its stdout
    bool signal_again = false;    ///< sent over and over from then on
    std::vector<std::pair<int, rlim_t>> limits = {}; ///< as for setrlimit: resource, soft and hard limit
    std::string join_group = {}; ///< a control group's file of processes, which it joins before it starts
    int timeout_seconds = 120;   ///< killed then, which fails the test
};

/// What became of it.
struct ChildResult {
    int exit_code = -1; ///< -1 if a signal ended it
    int signal = 0;     ///< the signal that ended it, or 0
    std::string out;
    std::string err;

    /// Lines of stderr without their newlines; empty ones are left out.
    [[nodiscard]] std::vector<std::string> err_lines() const;
};

/// Runs `program` to its end. Records a test failure if it can't be run or had to be killed.
ChildResult run_child(const std::string &program, const std::vector<std::string> &arguments,
                      const ChildOptions &options = {});

} // namespace sluice::test
