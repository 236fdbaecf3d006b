// The manual page and the completions of shells, made of the commands and flags as they are defined.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::cli {

/// Each is the whole file. Commands and flags that --help hides are left out.
std::string manual_page(const CLI::App &app);
std::string bash_completion(const CLI::App &app);
std::string zsh_completion(const CLI::App &app);
std::string fish_completion(const CLI::App &app);

} // namespace sluice::cli
