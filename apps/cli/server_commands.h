// `sluice serve` and `sluice chat`, whose options are llama.cpp's: CLI11 does not know them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// Runs the command `name` with the words behind it, if it is one of the two; returns its exit code. Empty:
/// it is another's.
std::optional<int> run_server_command(const std::string &name, const std::vector<std::string> &words);

} // namespace sluice::cli
