// What `sluice bench` measured, in medians and as tables.
#pragma once

#include "bench_matrix.h"
#include "bench_run.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

/// All runs of one setting.
struct BenchResult {
    BenchSetting setting;
    std::vector<BenchRun> runs; ///< one a round, as far as it came
    std::string failure;        ///< why it has no numbers; empty if it has
};

/// How the benchmark was asked to run.
struct BenchTask {
    std::string model;
    int prompt_tokens = 64;
    int tokens = 32;
    int rounds = 3;
};

/// Numbers of a setting over all its runs. Only for one without a failure.
struct BenchNumbers {
    double median_ms = 0; ///< per generated token, over the tokens of all rounds
    double first_quartile_ms = 0;
    double third_quartile_ms = 0;
    double prefill_tokens_per_second = 0; ///< these two: medians over rounds
    double load_seconds = 0;
    std::optional<uint64_t> peak_bytes; ///< of the round that took most; empty: unmeasured
    std::optional<double> hit_rate;     ///< over all rounds; empty if no expert was asked for
    double read_bytes_per_token = 0;    ///< over all rounds
};

BenchNumbers numbers_of(const BenchResult &result, int prompt_tokens);

/// The value below which the share `at` (0 to 1) of `values` lies, between two of them in proportion. At
/// least one value.
double quantile(std::vector<double> values, double at);

/// A row for each setting, then a line for each failure; columns aligned, or in Markdown.
std::string bench_table(const BenchTask &task, const std::vector<BenchResult> &results, bool markdown);

/// docs/bench.md is the format. `version` is the program's.
std::string bench_json(const BenchTask &task, const std::vector<BenchResult> &results,
                       const std::string &version);

} // namespace sluice::cli
