#include "planning/plan_advice.h"

#include "planning/plan_sizes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::planning {

namespace {

/// One way to run a model.
struct Way {
    bool streaming = true;
    ModelOptions model;
    SessionOptions session;
};

/// How a run may be told to take less.
struct Saving {
    std::string flag; ///< for people
    std::function<void(Way &)> apply;
};

/// Savings of one kind, the mildest first.
using Kind = std::vector<Saving>;

Way as_planned(const PlanState &state) {
    Way way{.streaming = state.plan.model.stream == StreamMode::Force,
            .model = state.plan.model,
            .session = state.plan.session};
    way.session.context_tokens = state.needs.context_tokens;
    return way;
}

/// Bytes that `way` lacks. Empty: it cannot be.
std::optional<uint64_t> missing(const PlanState &state, const Way &way) {
    const auto needs = state.needs_of(way.model, way.session, way.streaming);
    if (!needs) {
        return std::nullopt;
    }
    const uint64_t least = least_bytes(way.model, *needs);
    return least - std::min(least, *state.plan.budget_bytes);
}

Kind smaller_caches(const PlanState &state) {
    Kind kind;
    const auto add = [&kind](uint64_t mib) {
        kind.push_back(
            {fmt::format("--cache-mb {}", mib), [mib](Way &way) { way.model.cache_bytes = mib * kMiB; }});
    };
    const uint64_t least = mebibytes(state.needs.cache_minimum_bytes);
    const uint64_t room = room_for_cache(*state.plan.budget_bytes, state.plan.model, state.needs) / kMiB;
    if (state.needs.cache_minimum_bytes > 0 && state.plan.model.cache_bytes.value_or(0) > least * kMiB) {
        if (room > least) {
            add(room);
        }
        add(least);
    }
    return kind;
}

Kind smaller_ubatch(const PlanState &state) {
    constexpr uint32_t kLeast = 32;
    if (state.plan.session.ubatch_tokens <= kLeast) {
        return {};
    }
    return {{fmt::format("--ubatch-size {}", kLeast), [](Way &way) { way.session.ubatch_tokens = kLeast; }}};
}

Kind smaller_contexts(const PlanState &state) {
    constexpr uint32_t kLeast = 256;
    Kind kind;
    for (uint32_t tokens = state.needs.context_tokens / 2; tokens >= kLeast; tokens /= 2) {
        kind.push_back({fmt::format("--ctx-size {}", tokens),
                        [tokens](Way &way) { way.session.context_tokens = tokens; }});
    }
    return kind;
}

Kind streaming(const PlanState &state) {
    if (!state.facts.has_experts || state.plan.model.stream == StreamMode::Force) {
        return {};
    }
    return {{"streaming (without --no-moe-stream)", [](Way &way) { way.streaming = true; }}};
}

/// The flag that suffices alone, or those that do together, or what is missing with all of them.
std::string what_suffices(const PlanState &state) {
    std::vector<Kind> kinds{smaller_caches(state), smaller_ubatch(state), smaller_contexts(state),
                            streaming(state)};
    std::erase_if(kinds, [](const Kind &kind) { return kind.empty(); });
    for (const Kind &kind : kinds) {
        for (const Saving &saving : kind) {
            Way way = as_planned(state);
            saving.apply(way);
            if (missing(state, way) == 0U) {
                return fmt::format("; {} would suffice", saving.flag);
            }
        }
    }
    Way way = as_planned(state);
    uint64_t left = UINT64_MAX;
    std::vector<std::string> flags;
    for (size_t i = 0; i < kinds.size() && left > 0; ++i) {
        const Saving &most = kinds[i].back();
        Way with_it = way;
        most.apply(with_it);
        if (const auto left_then = missing(state, with_it); left_then && *left_then < left) {
            way = std::move(with_it);
            left = *left_then;
            flags.push_back(most.flag);
        }
    }
    if (flags.empty()) {
        return {};
    }
    const std::string all = fmt::format("{}", fmt::join(flags, " and "));
    return left == 0 ? fmt::format("; {} together would suffice", all)
                     : fmt::format("; even {} would leave {} MiB missing", all, mebibytes(left));
}

Result<RunPlan> planned(const PlanState &state, const PlanRequest &request) {
    return decide(request, state.facts, state.needs_of, Advice::None);
}

/// Whether what one token touches is held all at once.
bool holds_a_token(const Result<RunPlan> &plan) {
    return plan && (plan->model.stream != StreamMode::Force ||
                    plan->model.cache_bytes.value_or(0) >= plan->working_set_bytes);
}

/// The ceiling that suffices, in MiB, if the run is otherwise told `request`. More memory also lets the
/// planner take back what it had saved, so a sum alone would not do: what it comes to is planned anew.
std::optional<uint64_t> ceiling_that_suffices(const PlanState &state, PlanRequest request) {
    constexpr int kMostAttempts = 6;
    Way way = as_planned(state);
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
        const auto needs = state.needs_of(way.model, way.session, true);
        if (!needs) {
            return std::nullopt;
        }
        const uint64_t cache = mebibytes(needs->working_set_bytes) * kMiB;
        const uint64_t ceiling =
            mebibytes(with_overhead(fixed_bytes(way.model, *needs) + cache) + kBetweenRuns);
        request.ram_bytes = ceiling * kMiB;
        const auto plan = planned(state, request);
        if (holds_a_token(plan)) {
            return ceiling;
        }
        if (!plan) {
            return std::nullopt;
        }
        way = {.streaming = true, .model = plan->model, .session = plan->session};
    }
    return std::nullopt;
}

} // namespace

std::string refusal(const PlanState &state, Advice advice) {
    const uint64_t least = least_bytes(state.plan.model, state.needs);
    const uint64_t budget = *state.plan.budget_bytes;
    const bool loading = with_overhead(state.needs.load_peak_bytes) == least;
    return fmt::format(
        "the model needs at least {} MiB here and {} MiB are allowed ({}): {} MiB are missing{}{}",
        mebibytes(least), mebibytes(budget), state.plan.budget_source, mebibytes(least - budget),
        loading ? " while it loads, when the largest weight is held twice for a moment" : "",
        advice == Advice::Tried ? what_suffices(state) : "");
}

std::string cure_for_small_cache(const PlanState &state) {
    PlanRequest request = state.request;
    std::string flags;
    if (request.model.cache_bytes) {
        const uint64_t cache = mebibytes(state.needs.working_set_bytes);
        request.model.cache_bytes = cache * kMiB;
        flags = fmt::format("--cache-mb {}", cache);
        if (holds_a_token(planned(state, request))) {
            return fmt::format("; {} would fix that", flags);
        }
        flags += " with ";
    }
    const auto ceiling = ceiling_that_suffices(state, request);
    if (!ceiling) {
        return {};
    }
    if (state.facts.usable_memory && *ceiling * kMiB > *state.facts.usable_memory + state.facts.held_now) {
        return fmt::format("; it would take {} MiB in all to hold them, and {} MiB can be used now", *ceiling,
                           mebibytes(*state.facts.usable_memory + state.facts.held_now));
    }
    return fmt::format("; {}--ram-mb {} would fix that", flags, *ceiling);
}

} // namespace sluice::planning
