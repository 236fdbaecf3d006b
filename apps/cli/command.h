// What every subcommand shares: how it reports, and its exit codes.
#pragma once

#include "base/error.h"

#include <CLI/CLI.hpp>

namespace sluice::cli {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2 };

/// Prints "sluice: <message>" to stderr and returns the exit code for it: usage errors are InvalidArgument.
int report(const Error &error);

/// Each adds its subcommand to `app`; when chosen, `exit_code` is set by running it.
void add_run_command(CLI::App &app, int &exit_code);
void add_bench_command(CLI::App &app, int &exit_code);
void add_bench_run_command(CLI::App &app, int &exit_code);
void add_flag_pages_command(CLI::App &app, int &exit_code);
void add_inspect_command(CLI::App &app, int &exit_code);
void add_make_model_command(CLI::App &app, int &exit_code);
void add_perplexity_command(CLI::App &app, int &exit_code);
void add_replay_command(CLI::App &app, int &exit_code);
void add_report_command(CLI::App &app, int &exit_code);
void add_routes_command(CLI::App &app, int &exit_code);

} // namespace sluice::cli
