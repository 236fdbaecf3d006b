// What this process has cost the system so far: processor time, page faults, memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::platform {

/// Totals since the process began, but `resident`. An empty optional could not be measured.
struct ProcessUsage {
    std::optional<uint64_t> major_faults; ///< page faults that waited for a read
    std::optional<uint64_t> minor_faults; ///< page faults that did not
    std::optional<uint64_t> swap_ins;     ///< pages read from swap by the whole system; 0 without any swap
    std::optional<double> cpu_seconds;    ///< user and system time of all threads
    std::optional<uint64_t> resident;     ///< bytes in memory now
};

/// Reads the usage often: files under /proc stay open. Not thread-safe.
class ProcessMeter {
public:
    /// `root` is put before every /proc path, so that tests can fake a machine.
    explicit ProcessMeter(const std::string &root = "");
    ~ProcessMeter();
    ProcessMeter(const ProcessMeter &) = delete;
    ProcessMeter &operator=(const ProcessMeter &) = delete;

    [[nodiscard]] ProcessUsage read() const;

private:
    bool has_swap_ = false; ///< else nothing can be swapped in, and the costly look is saved
    bool swap_known_ = false;
    int vmstat_ = -1;
    int statm_ = -1;
};

} // namespace sluice::platform
