// A model that is only imagined, and what is planned for it on machines that are imagined, too.
#pragma once

#include "planning/plan_sizes.h"
#include "planning/run_planner.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace sluice::test {

using planning::kMiB;
constexpr uint64_t kGiB = uint64_t{1} << 30U;

/// A model of 30 billion weights: 17 GiB of experts, 1.2 GiB dense, a table of 0.5 GiB.
struct ImaginedModel {
    uint64_t dense = 1200 * kMiB;
    uint64_t table = 500 * kMiB;
    uint64_t experts = 17 * kGiB;
    uint64_t working_set = 900 * kMiB;
    uint64_t minimum = 20 * kMiB;
    uint64_t context_per_1024 = 96 * kMiB;
    uint64_t compute_per_512 = 300 * kMiB;
    uint64_t program = 60 * kMiB;

    [[nodiscard]] planning::NeedsOf needs() const {
        return [*this](const ModelOptions &model, const SessionOptions &session,
                       bool streaming) -> Result<planning::MemoryNeeds> {
            planning::MemoryNeeds needs;
            const uint32_t context = session.context_tokens > 0 ? session.context_tokens : 4096;
            needs.context_tokens = context;
            needs.program_bytes = program;
            needs.context_bytes = context_per_1024 * context / 1024;
            needs.compute_bytes = compute_per_512 * session.ubatch_tokens / 512;
            needs.dense_bytes = dense + (streaming && model.row_stream ? 0 : table);
            if (!streaming) {
                needs.dense_bytes += experts;
                return needs;
            }
            needs.row_table_bytes = model.row_stream ? table : 0;
            needs.expert_bytes = experts;
            needs.cache_minimum_bytes = minimum;
            needs.cache_useful_bytes = experts;
            needs.working_set_bytes = working_set;
            return needs;
        };
    }
};

inline RunPlan decided(const PlanRequest &request, const planning::PlanFacts &facts,
                       const ImaginedModel &model = {}) {
    auto plan = planning::decide(request, facts, model.needs());
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? *plan : RunPlan{};
}

inline bool has_flag(const RunPlan &plan, const std::string &flag) {
    return std::any_of(plan.choices.begin(), plan.choices.end(),
                       [&flag](const PlanChoice &choice) { return choice.flag.find(flag) == 0; });
}

inline std::string reason_of(const std::string &flag, const RunPlan &plan) {
    const auto found =
        std::find_if(plan.choices.begin(), plan.choices.end(),
                     [&flag](const PlanChoice &choice) { return choice.flag.find(flag) == 0; });
    return found == plan.choices.end() ? "" : found->reason;
}

} // namespace sluice::test
