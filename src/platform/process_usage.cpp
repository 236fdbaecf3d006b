#include "platform/process_usage.h"

#include "platform/reserved_memory.h"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace sluice::platform {
namespace {

int open_to_read(const std::string &path) {
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); // NOLINT(cppcoreguidelines-pro-type-vararg)
}

/// The beginning of the file, as far as `into` reaches; empty if it can't be read.
std::string_view read_start(int file, std::array<char, 16384> &into) {
    const ssize_t count = file < 0 ? -1 : ::pread(file, into.data(), into.size(), 0);
    return {into.data(), count < 0 ? 0 : static_cast<size_t>(count)};
}

/// The number that follows `key` and blanks at the start of a line.
std::optional<uint64_t> number_after(std::string_view text, std::string_view key) {
    for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
        if (at > 0 && text[at - 1] != '\n') {
            continue;
        }
        const size_t digits = text.find_first_not_of(" \t", at + key.size());
        uint64_t value = 0;
        if (digits != std::string_view::npos &&
            std::from_chars(text.data() + digits, text.data() + text.size(), value).ec == std::errc()) {
            return value;
        }
    }
    return std::nullopt;
}

double seconds(const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

} // namespace

ProcessMeter::ProcessMeter(const std::string &root)
    : vmstat_(open_to_read(root + "/proc/vmstat")), statm_(open_to_read(root + "/proc/self/statm")) {
    std::array<char, 16384> buffer{};
    const int meminfo = open_to_read(root + "/proc/meminfo");
    const auto swap = number_after(read_start(meminfo, buffer), "SwapTotal:");
    if (meminfo >= 0) {
        ::close(meminfo);
    }
    swap_known_ = swap.has_value();
    has_swap_ = swap.value_or(0) > 0;
}

ProcessMeter::~ProcessMeter() {
    for (const int file : {vmstat_, statm_}) {
        if (file >= 0) {
            ::close(file);
        }
    }
}

ProcessUsage ProcessMeter::read() const {
    ProcessUsage usage;
    std::array<char, 16384> buffer; // NOLINT(cppcoreguidelines-pro-type-member-init): read before it is used
    rusage counts{};
    if (::getrusage(RUSAGE_SELF, &counts) == 0) {
        usage.major_faults = static_cast<uint64_t>(counts.ru_majflt);
        usage.minor_faults = static_cast<uint64_t>(counts.ru_minflt);
        usage.cpu_seconds = seconds(counts.ru_utime) + seconds(counts.ru_stime);
    }
    if (has_swap_) {
        usage.swap_ins = number_after(read_start(vmstat_, buffer), "pswpin ");
    } else if (swap_known_) {
        usage.swap_ins = 0;
    }
    // Pages of the whole address space first, those in memory second.
    const std::string_view statm = read_start(statm_, buffer);
    if (const size_t blank = statm.find(' '); blank != std::string_view::npos) {
        uint64_t pages = 0;
        if (std::from_chars(statm.data() + blank + 1, statm.data() + statm.size(), pages).ec == std::errc()) {
            usage.resident = pages * system_page_size();
        }
    }
    return usage;
}

} // namespace sluice::platform
