#include "platform/compute_runtime.h"

#ifdef SLUICE_OPENMP
#include "platform/affinity.h"
#include "platform/barrier_variables.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fmt/format.h>
#include <omp.h>
#include <set>
#endif

namespace sluice::platform {

#ifdef SLUICE_OPENMP

namespace {

/// Seconds of spinning, as far as a token is concerned for ever.
constexpr uint64_t kLongSpin = 1'000'000'000;

std::string value_of(const char *name) {
    const char *value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// The setting with which threads spin at barriers for ever; empty if they do not.
std::string endless_spin() {
#ifdef __clang__
    const std::string time = value_of("KMP_BLOCKTIME");
    const bool endless = same_word(trimmed(time), "infinite");
    const auto given = time.empty() ? std::nullopt : std::optional(endless ? kSpinForEver : uint64_t{0});
    const std::string setting = "KMP_BLOCKTIME=" + time;
#else
    const std::string count = value_of("GOMP_SPINCOUNT");
    const std::optional<uint64_t> given = spin_count(count);
    const std::string setting = "GOMP_SPINCOUNT=" + count;
#endif
    if (given) {
        return *given >= kLongSpin ? setting : "";
    }
    const std::string policy = value_of("OMP_WAIT_POLICY");
    return spins_by_policy(policy).value_or(false) ? "OMP_WAIT_POLICY=" + policy : "";
}

} // namespace

std::optional<int> runtime_thread_limit() {
    const int limit = omp_get_thread_limit();
    return limit > 0 && limit < INT_MAX ? std::optional(limit) : std::nullopt;
}

std::vector<size_t> runtime_places() {
    std::set<size_t> processors;
    for (int place = 0; place < omp_get_num_places(); ++place) {
        std::vector<int> ids(static_cast<size_t>(std::max(omp_get_place_num_procs(place), 0)));
        if (!ids.empty()) {
            omp_get_place_proc_ids(place, ids.data());
        }
        processors.insert(ids.begin(), ids.end());
    }
    return {processors.begin(), processors.end()};
}

void leave_runtime_places() {
    if (omp_get_num_places() > 0) {
        set_affinity(affinity_at_start());
    }
}

std::vector<std::string> runtime_remarks() {
    std::vector<std::string> remarks;
    if (const std::string setting = endless_spin(); !setting.empty()) {
        remarks.push_back(fmt::format(
            "{} lets compute threads that wait spin for ever, on cores that reads and other programs want: "
            "tokens may take many times as long as without it",
            setting));
    }
    if (omp_get_dynamic() != 0) {
        remarks.emplace_back("OMP_DYNAMIC lets the OpenMP runtime compute with fewer threads than planned "
                             "whenever the machine is busy");
    }
    return remarks;
}

#else

std::optional<int> runtime_thread_limit() {
    return std::nullopt;
}

std::vector<size_t> runtime_places() {
    return {};
}

void leave_runtime_places() {
}

std::vector<std::string> runtime_remarks() {
    return {};
}

#endif

} // namespace sluice::platform
