// Memory and I/O accounting as /proc and the control groups tell it.
#include "platform/memory_facts.h"

#include "base/text.h"
#include "platform/control_groups.h"

#include <algorithm>
#include <string_view>

namespace sluice::platform {
namespace {

/// Version 1 writes "no limit" as the largest page-aligned number, which depends on the page size.
constexpr uint64_t no_limit_from = uint64_t{1} << 62;

/// The number in the line that starts with `key`; a following " kB" is taken into account.
std::optional<uint64_t> field(std::string_view text, std::string_view key) {
    for (const std::string_view line : sluice::split(text, '\n')) {
        if (!line.starts_with(key)) {
            continue;
        }
        const std::optional<uint64_t> value = sluice::leading_number(line.substr(key.size()));
        return value && line.ends_with(" kB") ? *value * 1024 : value;
    }
    return std::nullopt;
}

/// What the files of a control group are called.
struct Names {
    const char *limit;
    const char *soft_limit; ///< null: there is none that holds
    const char *usage;
    const char *inactive;
    const char *active;
};

constexpr Names first_names = {"/memory.limit_in_bytes", nullptr, "/memory.usage_in_bytes",
                               "total_inactive_file ", "total_active_file "};
constexpr Names second_names = {"/memory.max", "/memory.high", "/memory.current", "inactive_file ",
                                "active_file "};

std::optional<uint64_t> limit_in_file(const std::string &path) {
    const std::optional<uint64_t> limit = sluice::number_in_file(path);
    return limit && *limit < no_limit_from ? limit : std::nullopt;
}

std::optional<uint64_t> smaller(std::optional<uint64_t> one, std::optional<uint64_t> other) {
    return one && other ? std::min(*one, *other) : one ? one : other;
}

std::optional<uint64_t> group_limit(const std::string &directory, const Names &names) {
    const std::optional<uint64_t> hard = limit_in_file(directory + names.limit);
    // Above memory.high nothing is killed, but whoever allocates is slowed down until it falls below again.
    return names.soft_limit == nullptr ? hard : smaller(hard, limit_in_file(directory + names.soft_limit));
}

std::optional<uint64_t> group_usage(const std::string &directory, const Names &names) {
    const std::optional<uint64_t> charged = sluice::number_in_file(directory + names.usage);
    if (!charged) {
        return std::nullopt;
    }
    const std::string stat = sluice::read_text(directory + "/memory.stat").value_or("");
    const uint64_t reclaimable =
        field(stat, names.inactive).value_or(0) + field(stat, names.active).value_or(0);
    return *charged - std::min(*charged, reclaimable);
}

} // namespace

MemoryFacts read_memory_facts(const std::string &root) {
    MemoryFacts facts;
    if (const std::optional<std::string> text = sluice::read_text(root + "/proc/meminfo")) {
        facts.total = field(*text, "MemTotal:");
        facts.available = field(*text, "MemAvailable:");
    }
    for (const platform::ControlGroup &group : platform::control_groups("memory", root)) {
        const Names &names = group.second ? second_names : first_names;
        if (const std::optional<uint64_t> limit = group_limit(group.directory, names)) {
            facts.groups.push_back({group.directory, *limit, group_usage(group.directory, names)});
        }
    }
    return facts;
}

ProcessMemory read_process_memory(const std::string &root) {
    ProcessMemory memory;
    if (const std::optional<std::string> text = sluice::read_text(root + "/proc/self/status")) {
        memory.resident = field(*text, "VmRSS:");
        memory.peak_resident = field(*text, "VmHWM:");
        memory.anonymous = field(*text, "RssAnon:");
        memory.swapped = field(*text, "VmSwap:");
    }
    return memory;
}

ProcessIo read_process_io(const std::string &root) {
    ProcessIo io;
    if (const std::optional<std::string> text = sluice::read_text(root + "/proc/self/io")) {
        io.storage_read = field(*text, "read_bytes:");
        io.syscall_read = field(*text, "rchar:");
    }
    return io;
}

uint64_t GroupMemory::left() const {
    return limit - std::min(limit, usage.value_or(0));
}

std::optional<GroupMemory> tightest_group(const MemoryFacts &facts) {
    std::optional<GroupMemory> tightest;
    for (const GroupMemory &group : facts.groups) {
        // On a tie the outer group wins: it is charged for the inner one too.
        if (!tightest || group.left() <= tightest->left()) {
            tightest = group;
        }
    }
    return tightest;
}

std::optional<uint64_t> usable_memory(const MemoryFacts &facts) {
    const std::optional<GroupMemory> group = tightest_group(facts);
    return smaller(facts.available, group ? std::optional(group->left()) : std::nullopt);
}

} // namespace sluice::platform
