#include "platform/control_groups.h"

#include "base/text.h"
#include "platform/mount_table.h"

#include <algorithm>
#include <optional>

namespace sluice::platform {
namespace {

/// One version of control groups, asked for one controller.
struct Interface {
    bool second = false;
    std::string_view controller;
};

bool lists(std::string_view commas, std::string_view word) {
    const auto words = sluice::split(commas, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// This process's group, as /proc/self/cgroup names it.
std::optional<std::string> group_path(std::string_view groups, const Interface &kind) {
    for (const std::string_view line : sluice::split(groups, '\n')) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        if (kind.second ? controllers.empty() : lists(controllers, kind.controller)) {
            return std::string(line.substr(second + 1));
        }
    }
    return std::nullopt;
}

/// Where hierarchies of this kind can be seen: the directory, and which group that directory shows.
std::vector<MountEntry> find_mounts(std::string_view mountinfo, const Interface &kind) {
    std::vector<MountEntry> mounts = parse_mounts(mountinfo);
    std::erase_if(mounts, [&kind](const MountEntry &mount) {
        return kind.second ? mount.type != "cgroup2"
                           : mount.type != "cgroup" || !lists(mount.options, kind.controller);
    });
    return mounts;
}

/// The part of `path` below `group`; nothing if it does not lie there.
std::optional<std::string> below(const std::string &path, std::string group) {
    if (group == "/") {
        group.clear();
    }
    if (!path.starts_with(group)) {
        return std::nullopt;
    }
    const std::string part = path.substr(group.size());
    if (part == "/") {
        return "";
    }
    // A group beside the one that this namespace begins at is called "/../other", and no mount shows it.
    const bool inside = part.empty() || (part.front() == '/' && !part.starts_with("/.."));
    return inside ? std::optional(part) : std::nullopt;
}

/// Appends the groups of one hierarchy.
void append(std::vector<ControlGroup> &groups, const Interface &kind, const std::string &root) {
    const std::string own = sluice::read_text(root + "/proc/self/cgroup").value_or("");
    const std::optional<std::string> path = group_path(own, kind);
    if (!path) {
        return;
    }
    std::vector<MountEntry> mounts =
        find_mounts(sluice::read_text(root + "/proc/self/mountinfo").value_or(""), kind);
    if (mounts.empty()) {
        const std::string usual =
            kind.second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(kind.controller);
        mounts.push_back({.directory = usual, .root = "/", .type = {}, .options = {}});
    }
    // Without a mount that shows our group (a container's view can be like that), its top is the best guess.
    std::string top = root + mounts.front().directory;
    std::string relative;
    for (const MountEntry &mount : mounts) {
        if (const std::optional<std::string> part = below(*path, mount.root)) {
            top = root + mount.directory;
            relative = *part;
            break;
        }
    }
    while (true) {
        groups.push_back({top + relative, kind.second});
        const size_t slash = relative.rfind('/');
        if (slash == std::string::npos) {
            return;
        }
        relative.resize(slash);
    }
}

} // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string &root) {
    std::vector<ControlGroup> groups;
    for (const bool second : {false, true}) {
        append(groups, {.second = second, .controller = controller}, root);
    }
    return groups;
}

} // namespace sluice::platform
