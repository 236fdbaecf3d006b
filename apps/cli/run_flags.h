// What `sluice run` can be told.
#pragma once

#include "sluice/options.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace sluice::cli {

/// The flags of `sluice run`, as given.
struct RunFlags {
    std::optional<std::string> model;
    std::optional<std::string> prompt;
    std::optional<std::string> prompt_file;
    std::string system_prompt;
    std::optional<int> predict;
    SessionOptions session;
    SamplingOptions sampling;
    std::optional<float> repeat_penalty;
    bool chat = false;
    bool raw = false;
    bool moe_stream = false;
    bool no_moe_stream = false;
    std::string cache_mb = "auto";
    DenseWeights dense_weights = DenseWeights::Anon;
    bool row_stream = false;
    double row_stream_mb = 64;
    int io_threads = 4;
    bool no_direct = false;
    bool no_repack = false;
};

/// Adds the flags to `command`; parsing fills `flags`, which outlives it.
void add_run_flags(CLI::App &command, RunFlags &flags);

/// How the flags want the model loaded, but for progress.
ModelOptions model_options(const RunFlags &flags);

} // namespace sluice::cli
