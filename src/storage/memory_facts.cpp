// Memory and I/O accounting as /proc and the control groups tell it.
#include "storage/memory_facts.h"

#include "storage/mount_table.h"
#include "storage/text.h"

#include <algorithm>
#include <charconv>
#include <sched.h>
#include <set>
#include <string_view>
#include <thread>
#include <vector>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace sluice::storage {
namespace {

/// Version 1 writes "no limit" as the largest page-aligned number, which depends on the page size.
constexpr uint64_t no_limit_from = uint64_t{1} << 62;

/// The number at the start of `text`, blanks before it skipped.
std::optional<uint64_t> number_in(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) {
        return std::nullopt;
    }
    return value;
}

/// The number in the line that starts with `key`; a following " kB" is taken into account.
std::optional<uint64_t> field(std::string_view text, std::string_view key) {
    for (const std::string_view line : split(text, '\n')) {
        if (!line.starts_with(key)) {
            continue;
        }
        const std::optional<uint64_t> value = number_in(line.substr(key.size()));
        return value && line.ends_with(" kB") ? *value * 1024 : value;
    }
    return std::nullopt;
}

std::optional<uint64_t> number_in_file(const std::string &path) {
    const std::optional<std::string> text = read_text(path);
    return text ? number_in(*text) : std::nullopt;
}

/// Which of the two control group interfaces, and what its files are called.
struct Interface {
    bool second = false; ///< cgroup v2
    const char *fallback_mount;
    const char *limit;
    const char *usage;
    const char *inactive;
    const char *active;
};

constexpr Interface first_interface = {false,
                                       "/sys/fs/cgroup/memory",
                                       "/memory.limit_in_bytes",
                                       "/memory.usage_in_bytes",
                                       "total_inactive_file ",
                                       "total_active_file "};
constexpr Interface second_interface = {
    true, "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file ", "active_file "};

bool lists(std::string_view commas, std::string_view word) {
    const auto words = split(commas, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// This process's group, as /proc/self/cgroup names it.
std::optional<std::string> group_path(std::string_view groups, const Interface &kind) {
    for (const std::string_view line : split(groups, '\n')) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        if (kind.second ? controllers.empty() : lists(controllers, "memory")) {
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
                           : mount.type != "cgroup" || !lists(mount.options, "memory");
    });
    return mounts;
}

/// The part of `path` below `group`; nothing if it does not lie there.
std::optional<std::string> below(const std::string &path, std::string group) {
    if (group == "/") {
        group.clear();
    }
    const bool inside = path.starts_with(group) && (path.size() == group.size() || path[group.size()] == '/');
    return inside ? std::optional(path.substr(group.size())) : std::nullopt;
}

struct GroupLimit {
    uint64_t limit = 0;
    std::optional<uint64_t> usage;
};

std::optional<uint64_t> group_usage(const std::string &directory, const Interface &kind) {
    const std::optional<uint64_t> charged = number_in_file(directory + kind.usage);
    if (!charged) {
        return std::nullopt;
    }
    const std::string stat = read_text(directory + "/memory.stat").value_or("");
    const uint64_t reclaimable =
        field(stat, kind.inactive).value_or(0) + field(stat, kind.active).value_or(0);
    return *charged - std::min(*charged, reclaimable);
}

/// The smallest limit between this process's group and the top of what can be seen.
std::optional<GroupLimit> tightest(const std::string &root, const Interface &kind) {
    const std::optional<std::string> groups = read_text(root + "/proc/self/cgroup");
    const std::optional<std::string> path = groups ? group_path(*groups, kind) : std::nullopt;
    if (!path) {
        return std::nullopt;
    }
    std::vector<MountEntry> mounts = find_mounts(read_text(root + "/proc/self/mountinfo").value_or(""), kind);
    if (mounts.empty()) {
        mounts.push_back(
            {.directory = kind.fallback_mount, .root = "/", .type = {}, .source = {}, .options = {}});
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
    std::optional<GroupLimit> found;
    while (true) {
        const std::string directory = top + relative;
        const std::optional<uint64_t> limit = number_in_file(directory + kind.limit);
        // On a tie the outer group wins: it is charged for the inner one too.
        if (limit && *limit < no_limit_from && (!found || *limit <= found->limit)) {
            found = GroupLimit{*limit, group_usage(directory, kind)};
        }
        const size_t slash = relative.rfind('/');
        if (slash == std::string::npos) {
            return found;
        }
        relative.resize(slash);
    }
}

/// The processors this process may run on; empty if the system does not say.
std::vector<size_t> allowed_processors() {
    std::vector<size_t> allowed;
#ifdef __linux__
    // The kernel refuses a set smaller than its own.
    for (size_t capacity = 1024; capacity <= 65536; capacity *= 4) {
        std::vector<cpu_set_t> set(capacity / CPU_SETSIZE);
        const size_t bytes = set.size() * sizeof(cpu_set_t);
        if (::sched_getaffinity(0, bytes, set.data()) != 0) {
            continue;
        }
        for (size_t cpu = 0; cpu < capacity; ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, set.data())) {
                allowed.push_back(cpu);
            }
        }
        break;
    }
#endif
    return allowed;
}

} // namespace

MemoryFacts read_memory_facts(const std::string &root) {
    MemoryFacts facts;
    if (const std::optional<std::string> text = read_text(root + "/proc/meminfo")) {
        facts.total = field(*text, "MemTotal:");
        facts.available = field(*text, "MemAvailable:");
    }
    // On a hybrid system both exist and the controller lives in one of them.
    for (const Interface &kind : {first_interface, second_interface}) {
        const std::optional<GroupLimit> found = tightest(root, kind);
        if (found && (!facts.cgroup_limit || found->limit < *facts.cgroup_limit)) {
            facts.cgroup_limit = found->limit;
            facts.cgroup_usage = found->usage;
        }
    }
    return facts;
}

ProcessMemory read_process_memory(const std::string &root) {
    ProcessMemory memory;
    if (const std::optional<std::string> text = read_text(root + "/proc/self/status")) {
        memory.resident = field(*text, "VmRSS:");
        memory.peak_resident = field(*text, "VmHWM:");
        memory.anonymous = field(*text, "RssAnon:");
        memory.swapped = field(*text, "VmSwap:");
    }
    return memory;
}

ProcessIo read_process_io(const std::string &root) {
    ProcessIo io;
    if (const std::optional<std::string> text = read_text(root + "/proc/self/io")) {
        io.storage_read = field(*text, "read_bytes:");
        io.syscall_read = field(*text, "rchar:");
    }
    return io;
}

std::optional<uint64_t> usable_memory(const MemoryFacts &facts) {
    std::optional<uint64_t> usable = facts.available;
    if (facts.cgroup_limit) {
        // An unknown charge still leaves no more than the limit.
        const uint64_t used = std::min(facts.cgroup_usage.value_or(0), *facts.cgroup_limit);
        const uint64_t left = *facts.cgroup_limit - used;
        usable = usable ? std::min(*usable, left) : left;
    }
    return usable;
}

int physical_cores(const std::string &root) {
#ifdef __APPLE__
    static_cast<void>(root);
    int cores = 0;
    size_t length = sizeof(cores);
    if (::sysctlbyname("hw.physicalcpu", &cores, &length, nullptr, 0) == 0 && cores > 0) {
        return cores;
    }
#endif
    // The kernel's own list of a core's threads is the key. core_id with physical_package_id would not do:
    // on arm64 core ids start anew in each cluster while recent kernels report one package for them all.
    std::set<std::string> cores;
    for (const size_t cpu : allowed_processors()) {
        const std::string number = std::to_string(cpu);
        cores.insert(
            read_text(root + "/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list")
                .value_or(number));
    }
    if (!cores.empty()) {
        return static_cast<int>(cores.size());
    }
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace sluice::storage
