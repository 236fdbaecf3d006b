// What the system says about memory: available, limits, and what this process holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::storage {

/// Facts at one moment, in bytes. An empty optional means "could not be measured", never 0.
struct MemoryFacts {
    std::optional<uint64_t> total = {};        ///< physical memory
    std::optional<uint64_t> available = {};    ///< MemAvailable: what can be used without swapping
    std::optional<uint64_t> cgroup_limit = {}; ///< tightest memory limit on this process's cgroups (v1 or v2)
    std::optional<uint64_t> cgroup_usage = {}; ///< its charge, less file pages that can be reclaimed
};

/// What this process holds, in bytes.
struct ProcessMemory {
    std::optional<uint64_t> resident;      ///< resident set now
    std::optional<uint64_t> peak_resident; ///< highest resident set so far
    std::optional<uint64_t> anonymous;     ///< of resident: not pages of files
    std::optional<uint64_t> swapped;       ///< in swap or zram
};

/// Bytes read by this process, from the system's own accounting.
struct ProcessIo {
    std::optional<uint64_t> storage_read; ///< bytes that really came from storage
    std::optional<uint64_t> syscall_read; ///< bytes returned by read calls, page cache hits included
};

/// Reads the facts. `root` is put before every /proc and /sys path, so that tests can fake a machine.
MemoryFacts read_memory_facts(const std::string &root = "");
ProcessMemory read_process_memory(const std::string &root = "");
ProcessIo read_process_io(const std::string &root = "");

/// Memory that may be taken now: the smaller of MemAvailable and what the cgroup leaves. Empty if neither is
/// known.
std::optional<uint64_t> usable_memory(const MemoryFacts &facts);

/// Physical cores this process may run on (hyper-threads counted once), at least 1. The topology is read
/// below `root`; which processors are allowed is always asked of the running system.
int physical_cores(const std::string &root = "");

} // namespace sluice::storage
