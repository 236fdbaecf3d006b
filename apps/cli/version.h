// What this program is made of.
#pragma once

#include <string>

namespace sluice::cli {

/// For `--version`: the version, and a line each for llama.cpp's tree, the processor features that the
/// kernels were built for, and the runtime of the barriers.
std::string version_text();

} // namespace sluice::cli
