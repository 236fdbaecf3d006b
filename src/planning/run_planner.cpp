#include "planning/run_planner.h"

#include "planning/plan_advice.h"
#include "planning/plan_reading.h"
#include "planning/plan_sizes.h"
#include "session/planner.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::planning {

namespace {

/// A plan in the making.
class Decider {
public:
    Decider(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of, Advice advice)
        : request_(request), facts_(facts), needs_of_(needs_of), advice_(advice) {
        plan_.model = request.model;
        plan_.session = request.session;
        set_budget();
    }

    Result<RunPlan> run() {
        choose_threads();
        if (auto chosen = choose_mode_and_needs(); !chosen) {
            return fail(chosen.error());
        }
        if (auto chosen = choose_reading(); !chosen) {
            return fail(chosen.error());
        }
        if (auto fitted = streams() ? fit_streaming() : fit_resident(); !fitted) {
            return fail(fitted.error());
        }
        list_memory();
        note_settings();
        warn_of_what_has_no_effect();
        return std::move(plan_);
    }

private:
    void set_budget();
    void choose_threads();
    Status choose_reading();
    Status measure();
    Status choose_mode_and_needs();
    bool everything_fits() const;
    std::string why_streaming() const;
    Status fit_streaming();
    Status fit_resident();
    Status try_rows(const std::string &why);
    Status shrink();
    void choose_cache();
    void warn_below_working_set();
    void choose_layout();
    void list_memory();
    void note_settings();
    void warn_of_what_has_no_effect();
    bool streams() const { return plan_.model.stream == StreamMode::Force; }
    bool has_cache() const { return streams() && needs_.cache_minimum_bytes > 0; }
    uint64_t fixed() const { return fixed_bytes(plan_.model, needs_); }
    uint64_t least() const { return least_bytes(plan_.model, needs_); }
    bool least_fits() const { return !plan_.budget_bytes || least() <= *plan_.budget_bytes; }
    uint64_t room() const { return room_for_cache(*plan_.budget_bytes, plan_.model, needs_); }
    PlanState state() const { return {request_, facts_, needs_of_, plan_, needs_}; }
    void choose(std::string flag, std::string reason, bool given = false, bool measured = true) {
        plan_.choices.push_back({std::move(flag), std::move(reason), given, measured});
    }

    const PlanRequest &request_;
    const PlanFacts &facts_;
    const NeedsOf &needs_of_;
    const Advice advice_;
    RunPlan plan_;
    MemoryNeeds needs_;
    std::string rows_reason_;
    std::string ubatch_reason_ = "llama.cpp's default";
    std::string context_reason_;
};

void Decider::set_budget() {
    if (facts_.usable_memory) {
        // A cache that is given may take the system's part: it was somebody's decision.
        const uint64_t floor = request_.model.cache_bytes
                                   ? 0
                                   : residency::system_floor(*facts_.usable_memory, facts_.group_limit);
        plan_.budget_bytes = *facts_.usable_memory - std::min(floor, *facts_.usable_memory) + facts_.held_now;
        const std::string others = facts_.group_limit ? fmt::format("others in the control group of {} MiB",
                                                                    mebibytes(*facts_.group_limit))
                                                      : "the system";
        plan_.budget_source = fmt::format("{} MiB can be used now", mebibytes(*facts_.usable_memory));
        if (floor > 0) {
            plan_.budget_source += fmt::format(", {} MiB of them are left to {}", mebibytes(floor), others);
        }
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
    std::string reason = "given";
    if (!given) {
        plan_.session.threads = by_default.threads;
        plan_.session.try_fewer_threads = true;
        reason = by_default.reason;
        if (by_default.threads > 1) {
            reason += "; fewer are tried while it runs";
        }
    } else if (auto warning = platform::too_many_threads(plan_.session.threads, facts_.processors)) {
        plan_.warnings.push_back(std::move(*warning));
    }
    choose(fmt::format("--threads {}", plan_.session.threads), std::move(reason), given);
    plan_.choices.back().only_begins = !given;
}

Status Decider::choose_reading() {
    const auto engine = engine_asked_for(plan_.model);
    if (!engine) {
        return fail(engine.error());
    }
    plan_.model.io_engine = *engine;
    if (has_cache()) {
        plan_.choices.push_back(reading_choice(plan_.model));
    }
    return {};
}

Status Decider::measure() {
    auto needs = needs_of_(plan_.model, plan_.session, streams());
    if (!needs) {
        return fail(needs.error());
    }
    needs_ = std::move(*needs);
    return {};
}

Status Decider::choose_mode_and_needs() {
    const StreamMode asked = request_.model.stream;
    const bool stream = asked == StreamMode::Force || (asked == StreamMode::Auto && facts_.has_experts);
    std::string reason = asked == StreamMode::Force   ? "asked for by --moe-stream"
                         : asked == StreamMode::Never ? "asked for by --no-moe-stream"
                                                      : "the model has no routed experts";
    plan_.model.stream = stream ? StreamMode::Force : StreamMode::Never;
    if (auto measured = measure(); !measured) {
        return measured;
    }
    if (stream && asked == StreamMode::Auto) {
        reason = why_streaming();
        if (everything_fits() && request_.long_lived) {
            reason = "all of it fits in memory, and what runs for long wins back what loading takes";
            plan_.model.stream = StreamMode::Never;
            if (auto measured = measure(); !measured) {
                return measured;
            }
        }
    }
    plan_.model.mode_reason = reason;
    choose(streams() ? "--moe-stream" : "--no-moe-stream", reason, asked != StreamMode::Auto,
           asked != StreamMode::Auto || !facts_.has_experts || plan_.budget_bytes.has_value());
    return {};
}

/// With a cache of every expert, unless another is asked for.
bool Decider::everything_fits() const {
    return plan_.budget_bytes &&
           with_overhead(needs_.fixed_bytes() + needs_.cache_useful_bytes) <= *plan_.budget_bytes &&
           request_.model.cache_bytes.value_or(UINT64_MAX) >= needs_.cache_useful_bytes;
}

std::string Decider::why_streaming() const {
    if (request_.model.cache_bytes && *request_.model.cache_bytes < needs_.cache_useful_bytes) {
        return fmt::format("--cache-mb {} holds some of the {} MiB of experts",
                           mebibytes(*request_.model.cache_bytes), mebibytes(needs_.cache_useful_bytes));
    }
    if (!plan_.budget_bytes) {
        return "free memory could not be measured, and streaming is safe whatever it is";
    }
    if (everything_fits()) {
        return "every expert will fit in memory, and a streamed run answers before all are read";
    }
    return fmt::format("with every expert in memory it would take {} MiB, and {} MiB are allowed",
                       mebibytes(with_overhead(needs_.fixed_bytes() + needs_.cache_useful_bytes)),
                       mebibytes(*plan_.budget_bytes));
}

Status Decider::fit_streaming() {
    const bool short_of_memory =
        plan_.budget_bytes &&
        (with_overhead(fixed() + needs_.working_set_bytes) > *plan_.budget_bytes || !least_fits());
    const bool cut = plan_.budget_bytes && !request_.model.cache_bytes && room() < needs_.cache_useful_bytes;
    rows_reason_ = "memory suffices without";
    if (request_.rows_given) {
        rows_reason_ = "given";
    } else if (short_of_memory || cut) {
        auto tried = try_rows(short_of_memory ? "memory is short" : "the expert cache gets larger");
        if (!tried) {
            return tried;
        }
    }
    if (request_.model.cache_bytes.value_or(UINT64_MAX) < needs_.cache_minimum_bytes) {
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
        return fail(ErrorCode::OutOfMemory, refusal(state(), advice_));
    }
    choose_cache();
    return {};
}

/// A ceiling is kept. What is merely free now may change, and the system has ways to make room.
Status Decider::fit_resident() {
    if (least_fits()) {
        return {};
    }
    if (!request_.ram_bytes) {
        const DenseWeights held = request_.model.dense_weights;
        if (held != DenseWeights::Mmap && held != DenseWeights::Warm) { // mapped pages can be given back
            plan_.warnings.push_back(fmt::format(
                "the whole model in memory takes {} MiB and {} MiB are there ({}): it may be swapped, or the "
                "run ended by the system",
                mebibytes(least()), mebibytes(*plan_.budget_bytes), plan_.budget_source));
        }
        return {};
    }
    if (auto shrunk = shrink(); !shrunk) {
        return shrunk;
    }
    return least_fits() ? Status{} : fail(ErrorCode::OutOfMemory, refusal(state(), advice_));
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
        ubatch_reason_ = "halved until the least fits";
        if (auto measured = measure(); !measured) {
            return measured;
        }
    }
    while (!least_fits() && request_.session.context_tokens == 0 && needs_.context_tokens > kLeastContext) {
        plan_.session.context_tokens = needs_.context_tokens / 2;
        context_reason_ = "the default, halved until the least fits";
        if (auto measured = measure(); !measured) {
            return measured;
        }
    }
    return {};
}

void Decider::choose_cache() {
    plan_.working_set_bytes = needs_.working_set_bytes;
    plan_.expert_bytes = needs_.expert_bytes;
    const bool given = request_.model.cache_bytes.has_value();
    uint64_t cache = request_.model.cache_bytes.value_or(4 * needs_.working_set_bytes);
    std::string reason = "given";
    if (!given) {
        reason = "four times what one token touches: free memory could not be measured";
        if (plan_.budget_bytes) {
            cache = room();
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
    if (has_cache()) {
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
    plan_.warnings.push_back(
        fmt::format("the expert cache of {} MiB is smaller than the {} MiB that one token touches, so every "
                    "token reads most of them from storage{}",
                    mebibytes(cache), mebibytes(needs_.working_set_bytes),
                    advice_ == Advice::Tried ? cure_for_small_cache(state()) : ""));
}

void Decider::list_memory() {
    const auto add = [this](const std::string &what, uint64_t bytes) {
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
    for (const PlanItem &item : facts_.beside) {
        add(item.what, item.bytes);
    }
    if (streams()) {
        add("row window", fixed() - needs_.fixed_bytes());
        add("expert cache", std::min(*plan_.model.cache_bytes, needs_.cache_useful_bytes));
    }
    add("overhead", overhead_bytes(plan_.peak_bytes));
    const uint64_t loading = with_overhead(needs_.load_peak_bytes);
    add("more while it loads", loading - std::min(loading, plan_.peak_bytes));
}

void Decider::note_settings() {
    if (streams()) {
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
    if (request_.ram_bytes) {
        choose(fmt::format("--ram-mb {}", mebibytes(*request_.ram_bytes)), "given", true);
    }
}

void Decider::warn_of_what_has_no_effect() {
    if (!has_cache()) {
        if (auto warning = without_effect(request_.model, streams())) {
            plan_.warnings.push_back(std::move(*warning));
        }
    }
}

} // namespace

Result<RunPlan> decide(const PlanRequest &request, const PlanFacts &facts, const NeedsOf &needs_of,
                       Advice advice) {
    return Decider(request, facts, needs_of, advice).run();
}

} // namespace sluice::planning
