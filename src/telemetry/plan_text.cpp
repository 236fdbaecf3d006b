#include "telemetry/plan_text.h"

#include "options/cache_policy.h"
#include "telemetry/run_facts.h"

#include <fmt/format.h>

namespace sluice::telemetry {

namespace {

double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

/// Quoted for a shell where it has to be.
std::string shell_word(const std::string &text) {
    constexpr const char *kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
        return text;
    }
    std::string quoted = "'";
    for (const char letter : text) {
        quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    }
    return quoted + "'";
}

} // namespace

std::vector<std::string> plan_table(const RunPlan &plan) {
    std::vector<std::string> lines;
    const auto row = [&lines](const std::string &what, const std::string &value) {
        lines.push_back(fmt::format("  {:<26}{:>12}", what, value));
    };
    const auto size = [](uint64_t bytes) { return fmt::format("{:.1f} MiB", mebibytes(bytes)); };
    lines.emplace_back("memory plan:");
    for (const PlanItem &item : plan.memory) {
        row(item.what, size(item.bytes));
    }
    row("predicted peak", size(plan.peak_bytes));
    row("budget", plan.budget_bytes ? size(*plan.budget_bytes) : "unmeasured");
    lines.back() += plan.budget_bytes ? fmt::format("  ({})", plan.budget_source) : "";
    if (plan.working_set_bytes > 0) {
        row("one token touches", size(plan.working_set_bytes));
        lines.back() += fmt::format("  (of {} of experts)", size(plan.expert_bytes));
    }
    return lines;
}

std::vector<std::string> plan_choices(const RunPlan &plan) {
    std::vector<std::string> lines;
    lines.emplace_back("decisions:");
    for (const PlanChoice &choice : plan.choices) {
        lines.push_back(fmt::format("  {:<38}{}{}", choice.flag.empty() ? "(no flag)" : choice.flag,
                                    choice.reason, choice.measured ? "" : " [not measured]"));
    }
    return lines;
}

std::string plan_command(const RunPlan &plan) {
    std::string command = "sluice run -m " + shell_word(plan.model.path);
    for (const PlanChoice &choice : plan.choices) {
        command += choice.flag.empty() || choice.only_begins ? "" : " " + choice.flag;
    }
    if (plan.model.cache_policy != ModelOptions().cache_policy) {
        command += fmt::format(" --cache-policy {}", options::policy_name(plan.model.cache_policy));
    }
    if (plan.model.dense_weights != DenseWeights::Anon) {
        command += fmt::format(" --dense-weights {}", dense_weights_name(plan.model.dense_weights));
    }
    if (plan.model.lookahead) {
        command += *plan.model.lookahead == 0 ? std::string(" --lookahead off")
                                              : fmt::format(" --lookahead {}", *plan.model.lookahead);
    }
    if (plan.model.lossy.any()) {
        command += ' ' + plan.model.lossy.flags();
    }
    command += plan.model.hot_set_folder.empty() ? " --no-hot-set" : "";
    command += plan.model.direct ? "" : " --no-direct";
    command += plan.model.repack ? "" : " --no-repack";
    return command;
}

std::string plan_report(const RunPlan &plan) {
    std::string text;
    for (const auto &lines : {plan_table(plan), plan_choices(plan)}) {
        for (const std::string &line : lines) {
            text += line + '\n';
        }
    }
    return text + "command: " + plan_command(plan) + '\n';
}

} // namespace sluice::telemetry
