// Made-up runs and traces that look like real ones, for the pages of sluice report and sluice routes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// What a made-up run is like. Its numbers follow from these, the same each time.
struct SampleRun {
    std::vector<std::pair<std::string, std::string>> config = {}; ///< put in place of the usual, or added
    int tokens = 200;                                             ///< generated
    int prompt_tokens = 96;
    double hit_rate = 0.8;      ///< once the cache is full
    double compute_ms = 90;     ///< of a token
    double resident_mib = 2000; ///< that the cache grows to
    bool rows = false;          ///< streams rows, too
    bool speculative = false;   ///< reads ahead, too
    bool cpu_measured = true;   ///< without it, the last columns are empty
    uint32_t seed = 1;
    std::optional<std::string> end = "complete"; ///< "interrupted", "failed: why", or none: it was killed
};

/// The CSV file of such a run, as docs/telemetry.md describes it.
std::string sample_csv(const SampleRun &run);

/// A routing trace: each layer likes some experts better than others, and tokens like those that the one
/// before them used. The prompt comes first, as unions.
std::string sample_trace(uint32_t layers, uint32_t experts, uint32_t per_token, int tokens);

} // namespace sluice::test
