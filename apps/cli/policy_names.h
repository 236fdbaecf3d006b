// Cache policies as flags name them.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

/// The names of all policies, the default first.
std::vector<std::string> policy_names();

} // namespace sluice::cli
