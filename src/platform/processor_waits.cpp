#include "platform/processor_waits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace sluice::platform {

std::optional<uint64_t> waited_for_processors(const std::string &root) {
    std::error_code error;
    std::filesystem::directory_iterator threads(root + "/proc/self/task", error);
    if (error) {
        return std::nullopt;
    }
    std::optional<uint64_t> total;
    for (; !error && threads != std::filesystem::directory_iterator(); threads.increment(error)) {
        std::ifstream file(threads->path() / "schedstat");
        uint64_t ran = 0;
        uint64_t waited = 0;
        if (file >> ran >> waited) { // a thread that has just ended has none
            total = total.value_or(0) + waited;
        }
    }
    return total;
}

ProcessorWaits::ProcessorWaits(std::string root)
    : root_(std::move(root)), waited_(waited_for_processors(root_)), when_(Clock::now()) {
}

std::optional<double> ProcessorWaits::share() {
    const auto waited = waited_for_processors(root_);
    const Clock::time_point now = Clock::now();
    std::optional<double> share;
    if (waited && waited_ && now > when_) {
        // Threads that ended took theirs with them.
        const uint64_t more = *waited - std::min(*waited, *waited_);
        share = static_cast<double>(more) * 1e-9 / std::chrono::duration<double>(now - when_).count();
    }
    waited_ = waited;
    when_ = now;
    return share;
}

} // namespace sluice::platform
