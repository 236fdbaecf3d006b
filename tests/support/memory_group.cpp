#include "support/memory_group.h"

#include "base/text.h"
#include "platform/mount_table.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace sluice::test {

namespace {

namespace fs = std::filesystem;

bool write_to(const std::string &path, const std::string &text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
}

/// Where a hierarchy with the memory controller is mounted.
struct Hierarchy {
    std::string directory;
    bool second = false;
};

std::optional<Hierarchy> find_hierarchy() {
    const auto mounts = platform::parse_mounts(sluice::read_text("/proc/self/mountinfo").value_or(""));
    for (const platform::MountEntry &mount : mounts) {
        if (mount.type == "cgroup" && fs::exists(mount.directory + "/memory.limit_in_bytes")) {
            return Hierarchy{mount.directory, false};
        }
        if (mount.type == "cgroup2") {
            const std::string controllers =
                sluice::read_text(mount.directory + "/cgroup.controllers").value_or("");
            if (controllers.find("memory") != std::string::npos) {
                write_to(mount.directory + "/cgroup.subtree_control", "+memory"); // often done already
                return Hierarchy{mount.directory, true};
            }
        }
    }
    return std::nullopt;
}

/// The group that this process is in, in `hierarchy`.
std::string own_group(const Hierarchy &hierarchy) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (hierarchy.second ? controllers.empty() : controllers.find("memory") != std::string::npos) {
            return hierarchy.directory + line.substr(second + 1);
        }
    }
    return hierarchy.directory;
}

} // namespace

std::unique_ptr<MemoryGroup> MemoryGroup::make(uint64_t bytes, std::string &why_not) {
    static int number = 0;
    const auto hierarchy = find_hierarchy();
    if (!hierarchy) {
        why_not = "no control group hierarchy with the memory controller is mounted";
        return nullptr;
    }
    const std::string directory =
        fmt::format("{}/sluice-test-{}-{}", hierarchy->directory, ::getpid(), number++);
    std::error_code error;
    if (!fs::create_directory(directory, error)) {
        why_not = fmt::format("cannot make a control group: {}", error.message());
        return nullptr;
    }
    std::unique_ptr<MemoryGroup> group(
        new MemoryGroup(directory, hierarchy->second, own_group(*hierarchy) + "/cgroup.procs"));
    const std::string limit = directory + (hierarchy->second ? "/memory.max" : "/memory.limit_in_bytes");
    if (!write_to(limit, std::to_string(bytes))) {
        why_not = fmt::format("cannot set the memory limit of a control group ({})", limit);
        return nullptr;
    }
    if (hierarchy->second) {
        write_to(directory + "/memory.swap.max", "0");
    } else {
        write_to(directory + "/memory.swappiness", "0");
    }
    return group;
}

MemoryGroup::MemoryGroup(std::string directory, bool second, std::string home)
    : directory_(std::move(directory)), second_(second), home_(std::move(home)) {
}

MemoryGroup::~MemoryGroup() {
    // The kernel lets go of a process a moment after its end.
    for (int attempt = 0; attempt < 200 && ::rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++attempt) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

bool MemoryGroup::enter() const {
    return write_to(processes_file(), std::to_string(::getpid()));
}

void MemoryGroup::leave() const {
    write_to(home_, std::to_string(::getpid()));
}

std::optional<uint64_t> MemoryGroup::number(const std::string &file, const std::string &key) const {
    std::istringstream text(sluice::read_text(directory_ + "/" + file).value_or(""));
    uint64_t value = 0;
    for (std::string word; !key.empty() && text >> word && word != key;) {
    }
    return text >> value ? std::optional(value) : std::nullopt;
}

std::optional<uint64_t> MemoryGroup::usage_bytes() const {
    return number(second_ ? "memory.current" : "memory.usage_in_bytes");
}

std::optional<uint64_t> MemoryGroup::peak_bytes() const {
    return number(second_ ? "memory.peak" : "memory.max_usage_in_bytes");
}

std::optional<uint64_t> MemoryGroup::kills() const {
    return second_ ? number("memory.events", "oom_kill") : number("memory.oom_control", "oom_kill");
}

std::optional<uint64_t> MemoryGroup::swap_bytes() const {
    return second_ ? number("memory.swap.current") : number("memory.stat", "swap");
}

MemoryHog::MemoryHog(uint64_t bytes) {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) {
        return;
    }
    pid_ = ::fork();
    if (pid_ == 0) { // only calls that are safe after fork()
        void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const char full = memory != MAP_FAILED ? 'y' : 'n';
        if (memory != MAP_FAILED) {
            std::memset(memory, 1, bytes);
        }
        if (::write(ends[1], &full, 1) == 1) {
            ::pause();
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    char full = 'n';
    holds_ = ::read(ends[0], &full, 1) == 1 && full == 'y';
    ::close(ends[0]);
}

MemoryHog::~MemoryHog() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

} // namespace sluice::test
