#include "platform/processors.h"

#include "base/text.h"
#include "platform/affinity.h"
#include "platform/compute_runtime.h"
#include "platform/control_groups.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <thread>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace sluice::platform {
namespace {

/// Where nothing can be said about single processors.
int cores_of_the_machine() {
#ifdef __APPLE__
    int cores = 0;
    size_t length = sizeof(cores);
    if (::sysctlbyname("hw.physicalcpu", &cores, &length, nullptr, 0) == 0 && cores > 0) {
        return cores;
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Cores' worth of time that one group allows.
std::optional<double> quota_of(const ControlGroup &group) {
    std::optional<uint64_t> quota;
    std::optional<uint64_t> period;
    if (group.second) {
        // "max 100000" where there is no limit
        const std::string text = sluice::read_text(group.directory + "/cpu.max").value_or("");
        quota = sluice::leading_number(text);
        const size_t blank = text.find(' ');
        period = blank == std::string::npos ? std::nullopt : sluice::leading_number(text.substr(blank));
    } else {
        quota = sluice::number_in_file(group.directory + "/cpu.cfs_quota_us"); // -1 where there is no limit
        period = sluice::number_in_file(group.directory + "/cpu.cfs_period_us");
    }
    if (!quota || period.value_or(0) == 0) {
        return std::nullopt;
    }
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> tightest_quota(const std::string &root) {
    std::optional<double> tightest;
    for (const ControlGroup &group : control_groups("cpu", root)) {
        const std::optional<double> quota = quota_of(group);
        if (quota && (!tightest || *quota < *tightest)) {
            tightest = quota;
        }
    }
    return tightest;
}

/// How many numbers a list such as "0-3,8" names; empty if it names none.
std::optional<int> count_in_list(const std::string &list) {
    int count = 0;
    for (const std::string_view range : sluice::split(list, ',')) {
        const auto first = sluice::leading_number(range);
        const size_t dash = range.find('-');
        const auto last =
            dash == std::string_view::npos ? first : sluice::leading_number(range.substr(dash + 1));
        if (first && last && *last >= *first) {
            count += static_cast<int>(*last - *first + 1);
        }
    }
    return count > 0 ? std::optional(count) : std::nullopt;
}

std::string quota_text(double quota) {
    return fmt::format("the control group allows {:.1f} cores", quota);
}

} // namespace

std::vector<size_t> allowed_processors() {
    std::vector<size_t> places = runtime_places();
    return places.empty() ? affinity() : places;
}

Processors read_processors(const std::string &root, const std::vector<size_t> &allowed) {
    Processors processors;
    processors.quota = tightest_quota(root);
    processors.runtime_limit = runtime_thread_limit();
    if (allowed.empty()) {
        processors.cores = cores_of_the_machine();
        return processors;
    }
    processors.allowed = static_cast<int>(allowed.size());
    processors.online =
        count_in_list(sluice::read_text(root + "/sys/devices/system/cpu/online").value_or(""));
    // The kernel's own list of a core's threads is the key. core_id with physical_package_id would not do:
    // on arm64 core ids start anew in each cluster while recent kernels report one package for them all.
    std::map<std::string, uint64_t> capacity_of_core;
    bool capacities_known = true;
    for (const size_t cpu : allowed) {
        const std::string number = std::to_string(cpu);
        const std::string directory = root + "/sys/devices/system/cpu/cpu" + number;
        const auto capacity = sluice::number_in_file(directory + "/cpu_capacity");
        capacities_known = capacities_known && capacity.value_or(0) > 0;
        uint64_t &of_core = capacity_of_core[sluice::read_text(directory + "/topology/thread_siblings_list")
                                                 .value_or(number)];
        of_core = std::max(of_core, capacity.value_or(0));
    }
    processors.cores = static_cast<int>(capacity_of_core.size());
    if (capacities_known) {
        std::vector<uint64_t> capacities;
        for (const auto &[siblings, capacity] : capacity_of_core) {
            capacities.push_back(capacity);
        }
        processors.fast_cores = cores_worth_using(std::move(capacities));
    }
    return processors;
}

int cores_worth_using(std::vector<uint64_t> capacities) {
    std::sort(capacities.begin(), capacities.end(), std::greater<>());
    size_t best = 0;
    for (size_t count = 1; count <= capacities.size(); ++count) {
        // On a tie fewer: they leave more cores to reads.
        if (best == 0 || count * capacities[count - 1] > best * capacities[best - 1]) {
            best = count;
        }
    }
    return static_cast<int>(best);
}

ThreadChoice default_threads(const Processors &processors) {
    ThreadChoice choice{std::max(1, processors.cores), "physical cores: more would wait for each other"};
    if (processors.allowed && processors.online && *processors.allowed < *processors.online) {
        choice.reason = fmt::format("cores among the {} of {} processors that compute threads may run on",
                                    *processors.allowed, *processors.online);
    }
    if (processors.fast_cores && *processors.fast_cores < choice.threads) {
        choice = {std::max(1, *processors.fast_cores),
                  fmt::format("{} fast cores of {}: the others would keep them waiting",
                              *processors.fast_cores, processors.cores)};
    }
    if (processors.quota && *processors.quota < choice.threads) {
        choice = {std::max(1, static_cast<int>(std::floor(*processors.quota))),
                  quota_text(*processors.quota)};
    }
    if (processors.runtime_limit && *processors.runtime_limit < choice.threads) {
        choice = {std::max(1, *processors.runtime_limit), "OMP_THREAD_LIMIT allows no more"};
    }
    return choice;
}

int threads_that_compute(int asked, const Processors &processors) {
    return asked > 0 ? std::min(asked, processors.runtime_limit.value_or(asked))
                     : default_threads(processors).threads;
}

std::optional<std::string> too_many_threads(int threads, const Processors &processors) {
    if (processors.runtime_limit && threads > *processors.runtime_limit) {
        return fmt::format("of {} compute threads only {} will be there: OMP_THREAD_LIMIT allows no more",
                           threads, *processors.runtime_limit);
    }
    if (processors.quota && threads > *processors.quota && threads > 1) {
        return fmt::format(
            "{} compute threads are too many: {}, and all are stopped for a while whenever that is "
            "used up; fewer are faster",
            threads, quota_text(*processors.quota));
    }
    if (processors.allowed && threads > *processors.allowed) {
        return fmt::format("{} compute threads are too many: they may run on {} processor{}, and those that "
                           "share one wait for each other; fewer are faster",
                           threads, *processors.allowed, *processors.allowed == 1 ? "" : "s");
    }
    return std::nullopt;
}

} // namespace sluice::platform
