// The control groups that this process is in, of either version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::platform {

/// A group whose limits hold for this process: its own, or one that its own lies in.
struct ControlGroup {
    std::string directory; ///< where its files are
    bool second = false;   ///< version 2, whose files have other names
};

/// The groups of this process in the hierarchies that may have `controller` ("memory", "cpu"), each hierarchy
/// from the process's own group up to the outermost one that can be seen, so that an outer group comes after
/// those within. On a hybrid system both versions have one, and the controller's files lie in either. `root`
/// is put before every path, so that tests can fake a machine. Empty where the system has no control groups.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string &root = "");

} // namespace sluice::platform
