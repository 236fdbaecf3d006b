#include "engine/run_planner.h"

#include "engine/planner.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace sluice::engine {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20U;

uint64_t mebibytes(uint64_t bytes) {
    return (bytes + kMiB - 1) / kMiB;
}

/// A plan in the making.
class Decider {
public:
    Decider(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of)
        : request_(request), facts_(facts), needs_of_(needs_of) {
        plan_.model = request.model;
        plan_.session = request.session;
        set_budget();
    }

    Result<RunPlan> run() {
        choose_threads();
        if (auto chosen = choose_mode_and_needs(); !chosen) {
            return fail(chosen.error());
        }
        if (plan_.model.stream == StreamMode::Force) {
            if (auto fitted = fit_streaming(); !fitted) {
                return fail(fitted.error());
            }
        }
        list_memory();
        note_settings();
        return std::move(plan_);
    }

private:
    void set_budget();
    void choose_threads();
    void choose_reading();
    Status measure(bool streaming);
    Status choose_mode_and_needs();
    Status fit_streaming();
    Status try_rows(const std::string &why);
    Status shrink();
    bool least_fits() const { return !plan_.budget_bytes || least() <= *plan_.budget_bytes; }
    uint64_t fixed() const { return fixed_bytes(plan_.model, needs_); }
    static uint64_t fixed_bytes(const ModelOptions &model, const MemoryNeeds &needs);
    uint64_t room_for_cache() const;
    uint64_t least() const {
        return std::max(with_overhead(fixed() + cache_asked_or(needs_.cache_minimum_bytes)),
                        with_overhead(needs_.load_peak_bytes));
    }
    uint64_t cache_asked_or(uint64_t bytes) const { return request_.model.cache_bytes.value_or(bytes); }
    static uint64_t with_overhead(uint64_t bytes) { return bytes + overhead_bytes(bytes); }
    Error does_not_fit();
    void choose_cache();
    void warn_below_working_set();
    void choose_layout();
    void list_memory();
    void note_settings();
    void choose(std::string flag, std::string reason, bool given = false, bool measured = true) {
        plan_.choices.push_back({std::move(flag), std::move(reason), given, measured});
    }

    const PlanRequest &request_;
    const PlanFacts &facts_;
    const NeedsOf &needs_of_;
    RunPlan plan_;
    MemoryNeeds needs_;
    std::string rows_reason_;
    std::string ubatch_reason_ = "llama.cpp's default; it fits";
    std::string context_reason_;
};

void Decider::set_budget() {
    if (facts_.usable_memory) {
        const uint64_t floor = system_floor(*facts_.usable_memory, facts_.group_limit);
        plan_.budget_bytes = *facts_.usable_memory - std::min(floor, *facts_.usable_memory) + facts_.held_now;
        const std::string others = facts_.group_limit ? fmt::format("others in the control group of {} MiB",
                                                                    mebibytes(*facts_.group_limit))
                                                      : "the system";
        plan_.budget_source = fmt::format("{} MiB can be used now, {} MiB of them are left to {}",
                                          mebibytes(*facts_.usable_memory), mebibytes(floor), others);
    } else {
        plan_.budget_source = "unmeasured";
    }
    if (request_.ram_bytes) {
        // A ceiling may take the system's part, too: it is what a container's limit is.
        if (facts_.usable_memory && *request_.ram_bytes > *facts_.usable_memory + facts_.held_now) {
            plan_.warnings.push_back(
                fmt::format("--ram-mb {} is more than there is: {} MiB can be used now, {} are held already",
                            mebibytes(*request_.ram_bytes), mebibytes(*facts_.usable_memory),
                            mebibytes(facts_.held_now)));
        }
        plan_.budget_bytes = request_.ram_bytes;
        plan_.budget_source = "--ram-mb";
    }
}

void Decider::choose_threads() {
    const bool given = request_.session.threads > 0;
    const platform::ThreadChoice by_default = platform::default_threads(facts_.processors);
    if (!given) {
        plan_.session.threads = by_default.threads;
        plan_.session.try_fewer_threads = true;
    } else if (auto warning = platform::too_many_threads(plan_.session.threads, facts_.processors)) {
        plan_.warnings.push_back(std::move(*warning));
    }
    choose(fmt::format("--threads {}", plan_.session.threads), given ? "given" : by_default.reason, given);
    choose_reading();
}

void Decider::choose_reading() {
    ModelOptions &model = plan_.model;
    if (model.io_threads > 0 && model.io_depth == 0 && model.io_engine == IoEngine::Auto) {
        model.io_engine = IoEngine::Threads; // nothing else would use them
    }
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
    const bool given = !flags.empty();
    choose(fmt::format("{}", fmt::join(flags, " ")),
           given ? "given" : "how to read, and whether to look ahead, is found out while it runs", given);
}

Status Decider::measure(bool streaming) {
    auto needs = needs_of_(plan_.model, plan_.session, streaming);
    if (!needs) {
        return fail(needs.error());
    }
    needs_ = std::move(*needs);
    return {};
}

Status Decider::choose_mode_and_needs() {
    const StreamMode asked = request_.model.stream;
    bool stream = asked == StreamMode::Force || (asked == StreamMode::Auto && facts_.has_experts);
    std::string reason = asked == StreamMode::Force   ? "asked for by --moe-stream"
                         : asked == StreamMode::Never ? "asked for by --no-moe-stream"
                                                      : "the model has no routed experts";
    if (auto measured = measure(stream); !measured) {
        return measured;
    }
    if (stream && asked == StreamMode::Auto) {
        const uint64_t all = with_overhead(needs_.fixed_bytes() + needs_.cache_useful_bytes);
        const bool fits = plan_.budget_bytes && all <= *plan_.budget_bytes;
        reason =
            !plan_.budget_bytes ? "free memory could not be measured, and streaming is safe whatever it is"
            : fits ? "every expert will fit in memory, and a streamed run answers before all are read"
                   : fmt::format("with every expert in memory it would take {} MiB, and {} MiB are allowed",
                                 mebibytes(all), mebibytes(*plan_.budget_bytes));
        if (fits && request_.long_lived) {
            stream = false;
            reason = "all of it fits in memory, and what runs for long wins back what loading takes";
            if (auto measured = measure(stream); !measured) {
                return measured;
            }
        }
    }
    plan_.model.mode_reason = reason;
    plan_.model.stream = stream ? StreamMode::Force : StreamMode::Never;
    choose(stream ? "--moe-stream" : "--no-moe-stream", reason, asked != StreamMode::Auto,
           asked != StreamMode::Auto || !facts_.has_experts || plan_.budget_bytes.has_value());
    return {};
}

uint64_t Decider::fixed_bytes(const ModelOptions &model, const MemoryNeeds &needs) {
    const uint64_t window = model.row_stream ? std::min(model.row_window_bytes, needs.row_table_bytes) : 0;
    return needs.fixed_bytes() + window;
}

/// What the budget leaves: the most that fits beside the rest, with the overhead of all.
uint64_t Decider::room_for_cache() const {
    const uint64_t above = *plan_.budget_bytes - std::min(*plan_.budget_bytes, overhead_bytes(0));
    const uint64_t most = above - above / 257 - (above % 257 == 256 ? 1 : 0); // with a 256th of itself: above
    return most - std::min(most, fixed());
}

Status Decider::fit_streaming() {
    const bool short_of_memory =
        plan_.budget_bytes && with_overhead(fixed() + needs_.working_set_bytes) > *plan_.budget_bytes;
    const bool cut =
        plan_.budget_bytes && !request_.model.cache_bytes && room_for_cache() < needs_.cache_useful_bytes;
    rows_reason_ = "memory suffices without";
    if (request_.rows_given) {
        rows_reason_ = "given";
    } else if (short_of_memory || cut) {
        auto tried = try_rows(short_of_memory ? "memory is short" : "the expert cache gets larger");
        if (!tried) {
            return tried;
        }
    }
    if (cache_asked_or(needs_.cache_minimum_bytes) < needs_.cache_minimum_bytes) {
        return fail(
            ErrorCode::OutOfMemory,
            fmt::format("an expert cache of {} MiB is smaller than what one layer needs for one token; the "
                        "minimum for this model is --cache-mb {}",
                        mebibytes(*request_.model.cache_bytes), mebibytes(needs_.cache_minimum_bytes)));
    }
    if (auto shrunk = shrink(); !shrunk) {
        return shrunk;
    }
    if (!least_fits()) {
        return fail(does_not_fit());
    }
    choose_cache();
    return {};
}

/// With rows, if they take a MiB at least off memory: a cache is planned in whole ones. They cost a read of a
/// slab now and then.
Status Decider::try_rows(const std::string &why) {
    ModelOptions with_rows = plan_.model;
    with_rows.row_stream = true;
    auto needs = needs_of_(with_rows, plan_.session, true);
    if (!needs) {
        return fail(needs.error());
    }
    if (fixed_bytes(with_rows, *needs) + kMiB > fixed()) {
        rows_reason_ = "no table that is only gathered from is large enough to matter";
        return {};
    }
    rows_reason_ = fmt::format("{}: {} MiB of tables are only gathered from, {} MiB of them are kept", why,
                               mebibytes(needs->row_table_bytes),
                               mebibytes(std::min(with_rows.row_window_bytes, needs->row_table_bytes)));
    plan_.model.row_stream = true;
    needs_ = std::move(*needs);
    return {};
}

/// Smaller ubatches and then a smaller default context, only as far as it takes to fit at all.
Status Decider::shrink() {
    constexpr uint32_t kLeastUbatch = 64;
    constexpr uint32_t kLeastContext = 1024;
    while (!least_fits() && !request_.ubatch_given && plan_.session.ubatch_tokens > kLeastUbatch) {
        plan_.session.ubatch_tokens /= 2;
        ubatch_reason_ = "halved until the least cache fits";
        if (auto measured = measure(true); !measured) {
            return measured;
        }
    }
    while (!least_fits() && request_.session.context_tokens == 0 && needs_.context_tokens > kLeastContext) {
        plan_.session.context_tokens = needs_.context_tokens / 2;
        context_reason_ = "the default, halved until the least cache fits";
        if (auto measured = measure(true); !measured) {
            return measured;
        }
    }
    return {};
}

/// The sentence for a run that is not possible: what is missing, and what would free the most.
Error Decider::does_not_fit() {
    const uint64_t missing = least() - *plan_.budget_bytes;
    std::string best;
    uint64_t most = 0;
    const auto consider = [&](const std::string &flag, const ModelOptions &model,
                              const SessionOptions &session) {
        const auto needs = needs_of_(model, session, true);
        const uint64_t window =
            needs && model.row_stream ? std::min(model.row_window_bytes, needs->row_table_bytes) : 0;
        const uint64_t other = needs ? needs->fixed_bytes() + window : fixed();
        if (other < fixed() && fixed() - other > most) {
            most = fixed() - other;
            best = fmt::format("{} would free the most, {} MiB", flag, mebibytes(most));
        }
    };
    if (!plan_.model.row_stream) {
        ModelOptions rows = plan_.model;
        rows.row_stream = true;
        consider("--row-stream", rows, plan_.session);
    }
    if (with_overhead(needs_.load_peak_bytes) == least()) {
        most = with_overhead(needs_.load_peak_bytes) -
               std::min(with_overhead(needs_.load_peak_bytes), with_overhead(fixed()));
        best = "that is what loading takes, when the largest weight is held twice for a moment";
    }
    SessionOptions context = plan_.session;
    context.context_tokens = std::max(needs_.context_tokens / 4, 256U);
    consider(fmt::format("--ctx-size {}", context.context_tokens), plan_.model, context);
    SessionOptions ubatch = plan_.session;
    ubatch.ubatch_tokens = 32;
    consider("--ubatch-size 32", plan_.model, ubatch);
    if (request_.model.cache_bytes && *request_.model.cache_bytes > needs_.cache_minimum_bytes &&
        *request_.model.cache_bytes - needs_.cache_minimum_bytes > most) {
        best = fmt::format("a smaller --cache-mb (at least {}) would free the most",
                           mebibytes(needs_.cache_minimum_bytes));
    }
    return {
        ErrorCode::OutOfMemory,
        fmt::format("the model needs at least {} MiB here and {} MiB are allowed ({}): {} MiB are missing{}",
                    mebibytes(least()), mebibytes(*plan_.budget_bytes), plan_.budget_source,
                    mebibytes(missing), best.empty() ? "" : "; " + best)};
}

void Decider::choose_cache() {
    plan_.working_set_bytes = needs_.working_set_bytes;
    plan_.expert_bytes = needs_.expert_bytes;
    const bool given = request_.model.cache_bytes.has_value();
    uint64_t cache = cache_asked_or(4 * needs_.working_set_bytes);
    std::string reason = "given";
    if (!given) {
        reason = "four times what one token touches: free memory could not be measured";
        if (plan_.budget_bytes) {
            cache = room_for_cache();
            reason = "all that the budget leaves";
        }
        if (cache >= needs_.cache_useful_bytes) {
            cache = mebibytes(needs_.cache_useful_bytes) * kMiB; // no more than every expert is ever taken
            reason = "every expert fits";
        }
        cache = std::max(cache, needs_.cache_minimum_bytes) / kMiB * kMiB;
        if (cache < needs_.cache_minimum_bytes) {
            cache += kMiB;
        }
    }
    plan_.model.cache_bytes = cache;
    if (needs_.cache_minimum_bytes > 0) {
        choose(fmt::format("--cache-mb {}", mebibytes(cache)), reason, given,
               given || plan_.budget_bytes.has_value());
        warn_below_working_set();
        choose_layout();
    }
}

/// Repacked once and then used again and again it pays; read and repacked again and again it does not.
void Decider::choose_layout() {
    if (*plan_.model.cache_bytes >= needs_.cache_useful_bytes && plan_.model.repack) {
        plan_.model.repack_experts = true;
        choose("", "experts get the layout of ggml's fastest kernels when first used, as in memory: none is "
                   "evicted");
    }
}

void Decider::warn_below_working_set() {
    const uint64_t cache = *plan_.model.cache_bytes;
    if (cache >= needs_.working_set_bytes) {
        return;
    }
    const uint64_t enough = with_overhead(fixed() + needs_.working_set_bytes);
    plan_.warnings.push_back(fmt::format(
        "the expert cache of {} MiB is smaller than the {} MiB that one token touches, so every token reads "
        "most "
        "of them from storage; {} would fix that",
        mebibytes(cache), mebibytes(needs_.working_set_bytes),
        request_.model.cache_bytes ? fmt::format("--cache-mb {}", mebibytes(needs_.working_set_bytes))
                                   : fmt::format("--ram-mb {}", mebibytes(enough))));
}

void Decider::list_memory() {
    const auto add = [this](const char *what, uint64_t bytes) {
        if (bytes > 0) {
            plan_.memory.push_back({what, bytes});
            plan_.peak_bytes += bytes;
        }
    };
    add("program and vocabulary", needs_.program_bytes);
    add("dense weights", needs_.dense_bytes);
    add("dense weights, mapped", needs_.mapped_bytes);
    add("context (KV cache)", needs_.context_bytes);
    add("compute buffers", needs_.compute_bytes);
    add("workspace", needs_.workspace_bytes);
    if (plan_.model.stream == StreamMode::Force) {
        add("row window", fixed() - needs_.fixed_bytes());
        add("expert cache", std::min(*plan_.model.cache_bytes, needs_.cache_useful_bytes));
    }
    add("overhead", overhead_bytes(plan_.peak_bytes));
}

void Decider::note_settings() {
    if (plan_.model.stream == StreamMode::Force) {
        choose(plan_.model.row_stream ? fmt::format("--row-stream --row-stream-mb {}",
                                                    static_cast<double>(plan_.model.row_window_bytes) / kMiB)
                                      : "",
               (plan_.model.row_stream ? "rows from storage: " : "no row streaming: ") + rows_reason_,
               request_.rows_given);
    }
    const bool context_given = request_.session.context_tokens > 0;
    plan_.session.context_tokens = needs_.context_tokens;
    choose(fmt::format("--ctx-size {}", needs_.context_tokens),
           context_given             ? "given"
           : context_reason_.empty() ? "4096, or what the model was trained for if that is less"
                                     : context_reason_,
           context_given);
    choose(fmt::format("--ubatch-size {}", plan_.session.ubatch_tokens),
           request_.ubatch_given ? "given" : ubatch_reason_, request_.ubatch_given);
}

} // namespace

uint64_t overhead_bytes(uint64_t planned_bytes) {
    return 8 * kMiB + planned_bytes / 256;
}

Result<RunPlan> decide(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of) {
    return Decider(request, facts, needs_of).run();
}

} // namespace sluice::engine
