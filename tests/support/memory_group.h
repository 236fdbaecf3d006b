// A memory control group for a test: so much and no more, and what happened in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sluice::test {

/// Version 1 or 2, whichever has the memory controller. Removed at the end; whoever is in it must have left.
class MemoryGroup {
public:
    /// A group with a limit of `bytes` and no swap. Null where that can't be had (no root, no controller),
    /// with the reason in `why_not`.
    static std::unique_ptr<MemoryGroup> make(uint64_t bytes, std::string &why_not);

    ~MemoryGroup();
    MemoryGroup(const MemoryGroup &) = delete;
    MemoryGroup &operator=(const MemoryGroup &) = delete;

    /// Moves this whole process in, or back to where it came from. False if the system refuses.
    [[nodiscard]] bool enter() const;
    void leave() const;

    /// The file that a process joins the group by; see ChildOptions::join_group.
    [[nodiscard]] std::string processes_file() const { return directory_ + "/cgroup.procs"; }

    [[nodiscard]] std::optional<uint64_t> usage_bytes() const; ///< charged now, page cache included
    [[nodiscard]] std::optional<uint64_t> peak_bytes() const;  ///< highest charge, page cache included
    [[nodiscard]] std::optional<uint64_t> kills() const;       ///< processes killed for memory
    [[nodiscard]] std::optional<uint64_t> swap_bytes() const; ///< in swap now; empty also if there is no swap

private:
    MemoryGroup(std::string directory, bool second, std::string home);
    [[nodiscard]] std::optional<uint64_t> number(const std::string &file, const std::string &key = "") const;

    const std::string directory_;
    const bool second_;      ///< version 2
    const std::string home_; ///< the processes file of the group that this process was in
};

/// A child of this process that holds `bytes` of anonymous memory until it is destroyed. In a control group,
/// it is in that of this process.
class MemoryHog {
public:
    explicit MemoryHog(uint64_t bytes);
    ~MemoryHog();
    MemoryHog(const MemoryHog &) = delete;
    MemoryHog &operator=(const MemoryHog &) = delete;

    [[nodiscard]] bool holds() const { return holds_; }

private:
    int pid_ = -1;
    bool holds_ = false;
};

} // namespace sluice::test
