// What a run will do and take, decided before anything is allocated.
#pragma once

#include "base/error.h"
#include "options/plan_request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One line of the memory plan.
struct PlanItem {
    std::string what;
    uint64_t bytes = 0;
};

/// One decision.
struct PlanChoice {
    std::string flag;         ///< as on the command line, empty if the choice is to give none
    std::string reason;       ///< one line
    bool given = false;       ///< by the caller
    bool measured = true;     ///< false: it rests on a fact that could not be measured, so it is the default
    bool only_begins = false; ///< the run begins so and finds out what is best: no part of its command
};

/// The outcome: options to load and run with, and what they mean.
struct RunPlan {
    ModelOptions model;                   ///< stream and cache_bytes are decided
    SessionOptions session;               ///< threads, context and ubatch are decided
    std::vector<PlanItem> memory;         ///< what the peak consists of, in the order of the table
    uint64_t peak_bytes = 0;              ///< their sum
    std::optional<uint64_t> budget_bytes; ///< what the peak must stay under; empty: unknown
    std::string budget_source;            ///< where the budget comes from, for people
    uint64_t working_set_bytes = 0;       ///< slices that one token touches
    uint64_t expert_bytes = 0;            ///< all slices
    std::vector<PlanChoice> choices;
    std::vector<std::string> warnings; ///< a sentence each
};

/// Reads the file's header and the machine's facts, tries the model out on paper, and decides. Never chooses
/// anything lossy. Where every expert will stay in memory it gives experts the layout that llama.cpp gives
/// them there (ModelOptions::repack_experts), so that the text is that of llama.cpp's default; elsewhere it
/// is that of the file's layout. Takes about as long as reading the vocabulary, allocates no weights. Errors:
/// as Model::load; InvalidArgument for options of which only one
/// can be meant; OutOfMemory when even the least does not fit, with what is missing and the flags that
/// suffice.
Result<RunPlan> plan_run(const PlanRequest &request);

} // namespace sluice
