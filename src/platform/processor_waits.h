// How long this process's threads wait for a processor: whether somebody else wants the cores as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::platform {

/// Time that the threads of this process, those that are there now, have been ready to run and were not,
/// added up; nanoseconds since each began. Empty where the system does not say (Linux does, if built with
/// scheduler statistics). `root` is put before /proc, so that tests can fake a machine. Thread-safe.
std::optional<uint64_t> waited_for_processors(const std::string &root = "");

/// The same as a share of the time that passed. Not thread-safe.
class ProcessorWaits {
public:
    explicit ProcessorWaits(std::string root = "");

    /// Since the last call, or since this was made: 1 if on average one thread was waiting. Empty if unknown.
    std::optional<double> share();

private:
    using Clock = std::chrono::steady_clock;
    std::string root_;
    std::optional<uint64_t> waited_;
    Clock::time_point when_;
};

} // namespace sluice::platform
