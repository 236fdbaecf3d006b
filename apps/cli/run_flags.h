// What `sluice run` can be told.
#pragma once

#include "options/cache_policy.h"
#include "options/options.h"
#include "planning/plan.h"

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
    std::string cache_policy{options::policy_name(ModelOptions().cache_policy)};
    std::optional<std::string> route_trace;
    std::string dense_weights = "anon";
    bool row_stream = false;
    double row_stream_mb = 64;
    std::optional<int> io_threads;
    std::string io_engine = "auto";
    std::optional<int> io_depth;
    std::string lookahead = "auto";
    bool no_hot_set = false;
    LossyOptions lossy;
    std::optional<uint32_t> ubatch;
    std::optional<uint32_t> ram_mb;
    bool plan = false;
    bool automatic = false; ///< changes nothing: it is the default
    bool no_direct = false;
    bool no_repack = false;
    std::optional<std::string> csv;
    std::optional<std::string> progress;
    std::optional<std::string> decode_trace;
    std::string as_resolved; ///< all of them as one line, with defaults, without the text of prompts
};

/// Adds to `command` the flags that a plan depends on, and those that say how to read: context, memory,
/// streaming, storage. `flags` outlives it.
void add_plan_flags(CLI::App &command, RunFlags &flags);

/// Adds the flags that change the text.
void add_lossy_flags(CLI::App &command, LossyOptions &lossy);

/// Adds all flags to `command`; parsing fills `flags`, which outlives it.
void add_run_flags(CLI::App &command, RunFlags &flags);

/// The flags that `command` was given and the defaults of the others, as one line. Prompts are left out: a
/// table of a run may be shown to others.
std::string resolved_flags(const CLI::App &command);

/// What the flags want, for the planner to complete.
PlanRequest plan_request(const RunFlags &flags);

} // namespace sluice::cli
