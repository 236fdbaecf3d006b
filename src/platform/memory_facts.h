// What the system says about memory: available, limits, and what this process holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::platform {

/// A control group of this process that has a memory limit.
struct GroupMemory {
    std::string directory = {};          ///< where its files are: tells it from the others
    uint64_t limit = 0;                  ///< the smaller of its hard limit and (version 2) memory.high
    std::optional<uint64_t> usage = {};  ///< its charge, less file pages that can be reclaimed
    [[nodiscard]] uint64_t left() const; ///< an unknown charge leaves all of the limit
};

/// Facts at one moment, in bytes. An empty optional means "could not be measured", never 0.
struct MemoryFacts {
    std::optional<uint64_t> total = {};     ///< physical memory
    std::optional<uint64_t> available = {}; ///< MemAvailable: what can be used without swapping
    std::vector<GroupMemory> groups = {};   ///< with a limit, version 1 or 2; outer groups after those within
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

/// The group that leaves the least, which need not be the one with the smallest limit; of equal ones the
/// outer. Empty: no group has a limit.
std::optional<GroupMemory> tightest_group(const MemoryFacts &facts);

/// Memory that may be taken now: the smaller of MemAvailable and what the tightest group leaves. Empty if
/// neither is known.
std::optional<uint64_t> usable_memory(const MemoryFacts &facts);

} // namespace sluice::platform
