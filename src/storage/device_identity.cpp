#include "storage/device_identity.h"

#include "storage/mount_table.h"
#include "storage/posix_calls.h"
#include "storage/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif

namespace sluice::storage {
namespace {

namespace fs = std::filesystem;

std::string number_text(dev_t device) {
    return fmt::format("{}:{}", major(device), minor(device));
}

/// The first line of a file without the blanks around it; empty if there is none.
std::string first_line(const fs::path &path) {
    std::string line = read_text(path.string()).value_or("");
    line.resize(std::min(line.find('\n'), line.size()));
    constexpr std::string_view blanks = " \t\r\n";
    const size_t begin = line.find_first_not_of(blanks);
    return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
}

/// The first of `names` below the device's folder, or below that of the disk of which it is a part.
std::string attribute(const fs::path &device, std::initializer_list<const char *> names) {
    for (const fs::path &folder : {device, device.parent_path()}) {
        for (const char *name : names) {
            if (std::string text = first_line(folder / name); !text.empty()) {
                return text;
            }
        }
    }
    return {};
}

void add_model(DeviceIdentity &identity, const std::string &root) {
    std::error_code none;
    fs::path device = fs::canonical(root + "/sys/dev/block/" + identity.number, none);
    struct stat source = {};
    if (none && identity.source.starts_with("/dev/") && ::stat(identity.source.c_str(), &source) == 0) {
        // Files on btrfs, for one, report a number that belongs to no device.
        device = fs::canonical(root + "/sys/dev/block/" + number_text(source.st_rdev), none);
    }
    if (!none) {
        identity.model = attribute(device, {"device/model", "device/name"});
        identity.serial = attribute(device, {"device/serial", "serial"});
    }
}

} // namespace

bool DeviceIdentity::in_memory() const {
    constexpr std::array<std::string_view, 4> kinds = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"};
    return std::find(kinds.begin(), kinds.end(), file_system) != kinds.end();
}

std::string DeviceIdentity::describe() const {
    return fmt::format("{} on {}{}", file_system.empty() ? "unknown file system" : file_system,
                       source.empty() || in_memory() ? "device " + number : source,
                       model.empty() ? "" : fmt::format(" ({})", model));
}

Result<DeviceIdentity> identify_device(const std::string &path, const std::string &root) {
    struct stat facts = {};
    if (::stat(path.c_str(), &facts) != 0) {
        const int number = errno;
        return fail(code_of_open_error(number),
                    fmt::format("cannot examine {}: {}", path, errno_text(number)));
    }
    DeviceIdentity identity;
    identity.number = number_text(facts.st_dev);
    std::error_code ignored;
    const fs::path real = fs::canonical(path, ignored);
    const std::string table = read_text(root + "/proc/self/mountinfo").value_or("");
    if (const std::optional<MountEntry> mount = mount_of(real.string(), table)) {
        identity.file_system = mount->type;
        identity.source = mount->source;
    }
    add_model(identity, root);
    return identity;
}

} // namespace sluice::storage
