// Small files kept for later runs: where they go, and how one is replaced as a whole.
#pragma once

#include "base/error.h"

#include <string>
#include <string_view>

namespace sluice::platform {

/// $XDG_CACHE_HOME/sluice or ~/.cache/sluice. Empty if neither variable is set.
std::string user_cache_directory();

/// What a file written by replace_file() is sure to survive. In either case a process that is killed leaves
/// the old file or the new one, whole.
enum class Durability {
    SurvivesCrash,     ///< of the process
    SurvivesPowerLoss, ///< waits for the device
};

/// Puts `text` in the place of whatever file is at `path`; makes its folder if need be. Readers see the old
/// or the new text whole. Errors: PermissionDenied, Io.
Status replace_file(const std::string &path, std::string_view text, Durability durability);

} // namespace sluice::platform
