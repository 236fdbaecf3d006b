// Which device a path is on, so that what was measured on it can be found again.
#pragma once

#include "sluice/error.h"

#include <string>

namespace sluice::storage {

/// A device as the system names it. What could not be found out is empty.
struct DeviceIdentity {
    std::string number;      ///< "major:minor", as files on it report it
    std::string file_system; ///< such as "ext4"
    std::string source;      ///< what is mounted, such as "/dev/nvme0n1p2"
    std::string model;
    std::string serial;

    bool operator==(const DeviceIdentity &) const = default;

    /// Whether its files are in memory and nowhere else.
    [[nodiscard]] bool in_memory() const;

    /// For people: "ext4 on /dev/nvme0n1p2 (Some Model)".
    [[nodiscard]] std::string describe() const;
};

/// The device that holds `path`, a file or directory. `root` is put before every /proc and /sys path, so that
/// tests can fake a machine. Errors: NotFound, PermissionDenied, Io.
Result<DeviceIdentity> identify_device(const std::string &path, const std::string &root = "");

} // namespace sluice::storage
