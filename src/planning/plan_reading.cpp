#include "planning/plan_reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace sluice::planning {

namespace {

std::vector<std::string> reading_flags(const ModelOptions &model) {
    std::vector<std::string> flags;
    if (model.io_engine != IoEngine::Auto) {
        flags.emplace_back(model.io_engine == IoEngine::Threads ? "--io-engine threads"
                                                                : "--io-engine uring");
    }
    if (model.io_threads > 0) {
        flags.push_back(fmt::format("--io-threads {}", model.io_threads));
    }
    if (model.io_depth > 0) {
        flags.push_back(fmt::format("--io-depth {}", model.io_depth));
    }
    return flags;
}

} // namespace

Result<IoEngine> engine_asked_for(const ModelOptions &model) {
    if (model.io_threads > 0 && model.io_depth > 0) {
        return fail(ErrorCode::InvalidArgument, "--io-threads is for reading with threads and --io-depth for "
                                                "io_uring: only one of them can be meant");
    }
    if (model.io_threads > 0 && model.io_engine == IoEngine::Uring) {
        return fail(ErrorCode::InvalidArgument,
                    "--io-threads is for reading with threads, not for --io-engine "
                    "uring, whose reads in flight are --io-depth");
    }
    if (model.io_depth > 0 && model.io_engine == IoEngine::Threads) {
        return fail(ErrorCode::InvalidArgument,
                    "--io-depth is for io_uring, not for --io-engine threads, whose "
                    "number is --io-threads");
    }
    return model.io_threads > 0 ? IoEngine::Threads : model.io_depth > 0 ? IoEngine::Uring : model.io_engine;
}

PlanChoice reading_choice(const ModelOptions &model) {
    const std::vector<std::string> flags = reading_flags(model);
    const bool width_given = model.io_threads > 0 || model.io_depth > 0;
    std::vector<std::string> open;
    if (!width_given) {
        open.emplace_back(flags.empty() ? "how to read" : "how many reads are in flight");
    }
    if (!model.lookahead) {
        open.emplace_back("whether to look ahead");
    }
    std::string reason = flags.empty() ? "" : "given";
    if (!open.empty()) {
        reason += fmt::format("{}{} is found out while it runs", reason.empty() ? "" : "; ",
                              fmt::join(open, " and "));
    }
    return {.flag = fmt::format("{}", fmt::join(flags, " ")),
            .reason = std::move(reason),
            .given = !flags.empty()};
}

std::optional<std::string> without_effect(const ModelOptions &asked, bool streaming) {
    std::vector<std::string> flags;
    if (asked.cache_bytes) {
        flags.emplace_back("--cache-mb");
    }
    if (asked.lookahead) {
        flags.emplace_back("--lookahead");
    }
    if (asked.io_engine != IoEngine::Auto && !asked.row_stream) {
        flags.emplace_back("--io-engine");
    }
    if (asked.io_threads > 0) {
        flags.emplace_back("--io-threads");
    }
    if (asked.io_depth > 0) {
        flags.emplace_back("--io-depth");
    }
    if (flags.empty()) {
        return std::nullopt;
    }
    return fmt::format("{} {} no effect here, because {}", fmt::join(flags, " and "),
                       flags.size() == 1 ? "has" : "have",
                       streaming ? "the model has no routed experts" : "the whole model is held in memory");
}

} // namespace sluice::planning
