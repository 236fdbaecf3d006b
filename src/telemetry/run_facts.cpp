#include "telemetry/run_facts.h"

#include "options/cache_policy.h"
#include "platform/memory_facts.h"

#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <sys/utsname.h>

namespace sluice::telemetry {

namespace {

std::string yes_no(bool value) {
    return value ? "yes" : "no";
}

std::string mebibytes(uint64_t bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::string sampler(const SamplingOptions &options) {
    return fmt::format(
        "temp={:g} top_k={} top_p={:g} min_p={:g} repeat_penalty={:g} repeat_last_n={} seed={}",
        options.temperature, options.top_k, options.top_p, options.min_p, options.repeat_penalty,
        options.repeat_last_n, options.seed ? std::to_string(*options.seed) : "random");
}

/// "2026-01-31T12:00:00Z"
std::string now_in_utc() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    char text[32] = "";
    if (::gmtime_r(&now, &parts) != nullptr) {
        std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    return text;
}

/// As the system calls it; where it has no name for it (arm64), the architecture.
std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const size_t colon = line.find(": ");
        if (colon != std::string::npos && (line.starts_with("model name") || line.starts_with("Hardware"))) {
            return line.substr(colon + 2);
        }
    }
    utsname system{};
    return ::uname(&system) == 0 ? system.machine : "";
}

} // namespace

const char *dense_weights_name(DenseWeights how) {
    switch (how) {
    case DenseWeights::Mmap:
        return "mmap";
    case DenseWeights::Warm:
        return "warm";
    case DenseWeights::Locked:
        return "locked";
    case DenseWeights::Ahwb:
        return "ahwb";
    case DenseWeights::Anon:
        break;
    }
    return "anon";
}

std::string given_or_auto(int number) {
    return number > 0 ? std::to_string(number) : "auto";
}

std::string lookahead_name(std::optional<uint32_t> lookahead) {
    return !lookahead ? "auto" : *lookahead == 0 ? "off" : std::to_string(*lookahead);
}

Facts model_facts(const Model &model, const ModelOptions &options, const Session &session,
                  const SessionOptions &session_options, const SamplingOptions &sampling) {
    const ModelInfo &info = model.info();
    const bool experts = info.streaming && info.expert_banks > 0;
    const RunStats stats = session.stats();
    return {
        {"architecture", info.architecture},
        {"description", info.description},
        {"file_bytes", std::to_string(info.file_bytes)},
        {"mode", info.streaming ? "streaming" : "resident"},
        {"cache_MiB", experts ? mebibytes(stats.experts.cache_bytes) : ""},
        {"policy", experts ? std::string(options::policy_name(options.cache_policy)) : ""},
        {"lookahead", experts ? lookahead_name(options.lookahead) : ""},
        {"hot_set", experts ? yes_no(!options.hot_set_folder.empty()) : ""},
        {"io_engine", info.io_engine},
        {"io_threads", info.streaming ? given_or_auto(options.io_threads) : ""},
        {"direct", info.streaming ? yes_no(info.direct) : ""},
        {"repack", yes_no(options.repack)},
        {"repack_experts", experts ? yes_no(options.repack_experts) : ""},
        {"dense_weights", dense_weights_name(options.dense_weights)},
        {"row_stream", yes_no(options.row_stream)},
        {"row_window_MiB", options.row_stream ? mebibytes(options.row_window_bytes) : ""},
        {"ctx_size", std::to_string(session.context_tokens())},
        {"ubatch_size", std::to_string(session_options.ubatch_tokens)},
        {"threads", std::to_string(session.threads())},
        {"sampler", sampler(sampling)},
        {"instrumented", yes_no(static_cast<bool>(session_options.on_node))},
        {"lossy", info.lossy.empty() ? "no" : info.lossy},
    };
}

Facts machine_facts() {
    const auto memory = platform::read_memory_facts().total;
    return {
        {"started", now_in_utc()}, {"cpu", processor()}, {"memory_MiB", memory ? mebibytes(*memory) : ""}};
}

} // namespace sluice::telemetry
