// What is mounted where, as /proc/self/mountinfo tells it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::platform {

/// One mounted file system.
struct MountEntry {
    std::string directory; ///< where it is mounted
    std::string root;      ///< which of its directories is seen there
    std::string type;      ///< such as "ext4"
    std::string options;   ///< the file system's own, separated by commas
};

/// The entries of a mountinfo text, in its order; lines that make no sense are left out.
std::vector<MountEntry> parse_mounts(std::string_view mountinfo);

} // namespace sluice::platform
