// One run of one setting of `sluice bench`: what is measured, in a process of its own.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// What one run measured. Counts are of the generated tokens.
struct BenchRun {
    bool streaming = false;
    std::optional<uint64_t> cache_bytes; ///< expert cache; empty without one
    std::vector<double> token_ms;        ///< wall time of each generated token
    double prefill_seconds = 0;
    double load_seconds = 0;
    std::optional<uint64_t> peak_bytes; ///< highest resident set of its process
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t read_bytes = 0; ///< slices and rows, those read ahead included
};

nlohmann::json to_json(const BenchRun &run);

/// Reads what to_json() made. Errors: Internal.
Result<BenchRun> bench_run_from(const std::string &json);

/// Name of the subcommand, which `sluice --help` does not list.
constexpr const char *kBenchRunCommand = "bench-run";

/// How it is told how many tokens to compute.
std::vector<std::string> bench_run_arguments(const std::string &model, int prompt_tokens, int tokens);

} // namespace sluice::cli
