// A run as planned under a ceiling: what was predicted against what was taken. Prints one JSON object.
//
//   planned_run MODEL RAM_MIB THREADS PROMPT_TOKENS TOKENS [CONTEXT]

#include "bench_prompt.h"

#include "planning/plan.h"
#include "session/model.h"
#include "session/session.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

namespace {

int failed(const sluice::Error &error) {
    std::fprintf(stderr, "planned_run: %s\n", error.message.c_str());
    return 1;
}

uint32_t number(const char *text) {
    return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

/// The highest charge of this process's memory control group, if it has one of its own.
std::optional<uint64_t> group_peak_bytes() {
    std::ifstream groups("/proc/self/cgroup");
    std::string line;
    while (std::getline(groups, line)) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string group = line.substr(second + 1);
        if (group == "/" || (controllers != "memory" && !controllers.empty())) {
            continue;
        }
        for (const std::string &file : {"/sys/fs/cgroup/memory" + group + "/memory.max_usage_in_bytes",
                                        "/sys/fs/cgroup" + group + "/memory.peak"}) {
            uint64_t bytes = 0;
            if (std::ifstream(file) >> bytes) {
                return bytes;
            }
        }
    }
    return std::nullopt;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) {
        std::fprintf(stderr, "usage: planned_run MODEL RAM_MIB THREADS PROMPT_TOKENS TOKENS [CONTEXT]\n");
        return 2;
    }
    auto plan = sluice::plan_run(
        {.model = {.path = argv[1], .stream = sluice::StreamMode::Force},
         .session = {.context_tokens = argc == 7 ? number(argv[6]) : 0, .threads = std::atoi(argv[3])},
         .ram_bytes = std::strtoull(argv[2], nullptr, 10) << 20U});
    if (!plan) {
        return failed(plan.error());
    }
    auto model = sluice::Model::load(plan->model);
    if (!model) {
        return failed(model.error());
    }
    auto session = sluice::Session::create(*model, plan->session);
    if (!session) {
        return failed(session.error());
    }
    const size_t vocabulary = session->vocab_size();
    if (auto decoded = session->decode(
            sluice::bench::prompt_tokens(static_cast<size_t>(std::atoi(argv[4])), vocabulary));
        !decoded) {
        return failed(decoded.error());
    }
    for (int i = 0; i < std::atoi(argv[5]); ++i) {
        const sluice::Token token = sluice::bench::next_token(i, vocabulary);
        if (auto decoded = session->decode({&token, 1}); !decoded) {
            return failed(decoded.error());
        }
    }
    nlohmann::json result;
    result["architecture"] = model->info().architecture;
    result["predicted_mib"] = static_cast<double>(plan->peak_bytes) / 1048576.0;
    result["measured_mib"] = static_cast<double>(sluice::bench::peak_resident_bytes()) / 1048576.0;
    result["ratio"] = result["measured_mib"].get<double>() / result["predicted_mib"].get<double>();
    result["cache_mib"] = static_cast<double>(plan->model.cache_bytes.value_or(0)) / 1048576.0;
    result["evictions"] = session->stats().experts.evictions;
    if (const auto peak = group_peak_bytes()) {
        result["group_peak_mib"] = static_cast<double>(*peak) / 1048576.0;
    }
    std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
    std::_Exit(0); // freeing gigabytes is not what is measured
}
