#include "telemetry/inspect_text.h"

#include "telemetry/summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

namespace sluice::telemetry {

namespace {

const char *role_title(WeightRole role) {
    switch (role) {
    case WeightRole::Experts:
        return "streamed experts";
    case WeightRole::Rows:
        return "row tables";
    case WeightRole::Unused:
        return "not used";
    case WeightRole::Dense:
        break;
    }
    return "dense";
}

std::string weight_lines(const ModelInspection &model) {
    std::string text = fmt::format("weights:\n  {:<18}{:>8}{:>14}   used by\n", "", "tensors", "size");
    for (const WeightRole role : kWeightRoles) {
        const RoleTotals totals = role_totals(model, role);
        if (totals.tensors > 0) {
            text += fmt::format(
                "  {:<18}{:>8}{:>14}   {}\n", role_title(role), totals.tensors, human_bytes(totals.bytes),
                totals.operations.empty() ? "nothing"
                                          : fmt::format("{}", fmt::join(totals.operations, ", ")));
        }
    }
    return text;
}

/// Layers that are alike are told of once, with their number.
std::string layer_lines(const ModelInspection &model) {
    std::vector<std::pair<ExpertLayer, size_t>> kinds;
    for (const ExpertLayer &layer : model.layers) {
        const auto alike = std::find_if(kinds.begin(), kinds.end(), [&layer](const auto &kind) {
            return kind.first.experts == layer.experts &&
                   kind.first.experts_per_token == layer.experts_per_token &&
                   kind.first.token_bytes == layer.token_bytes;
        });
        ++(alike != kinds.end() ? *alike : kinds.emplace_back(layer, 0)).second;
    }
    std::string text;
    for (const auto &[layer, count] : kinds) {
        text += fmt::format("  {} layer{}: {} of {} experts for a token, {}\n", count, count == 1 ? "" : "s",
                            layer.experts_per_token, layer.experts, human_bytes(layer.token_bytes));
    }
    return text;
}

std::string expert_lines(const ModelInspection &model) {
    if (model.layers.empty()) {
        return "experts: none\n";
    }
    std::string text = fmt::format("experts: {}; one token touches {}\n", human_bytes(model.expert_bytes),
                                   human_bytes(model.working_set_bytes));
    text += layer_lines(model);
    for (const SliceKind &kind : model.slices) {
        text += fmt::format("  slices of {} ({}): {} in each of {} bank{}\n", human_bytes(kind.bytes),
                            kind.type, kind.experts, kind.banks, kind.banks == 1 ? "" : "s");
    }
    return text;
}

} // namespace

RoleTotals role_totals(const ModelInspection &model, WeightRole role) {
    RoleTotals totals;
    std::map<std::string, size_t> counts;
    for (const WeightInfo &weight : model.weights) {
        if (weight.role != role) {
            continue;
        }
        ++totals.tensors;
        totals.bytes += weight.bytes;
        for (const std::string &operation : weight.operations) {
            ++counts[operation];
        }
    }
    for (const auto &[operation, count] : counts) {
        totals.operations.push_back(operation);
    }
    std::stable_sort(totals.operations.begin(), totals.operations.end(),
                     [&](const auto &a, const auto &b) { return counts[a] > counts[b]; });
    return totals;
}

std::string inspection_report(const ModelInspection &model) {
    std::string text =
        fmt::format("model: {}\n  {}; {} in {}, {} tensors\n", model.files.front(), model.description,
                    human_bytes(model.file_bytes),
                    model.files.size() == 1 ? "1 file" : fmt::format("{} files", model.files.size()),
                    model.weights.size());
    return text + weight_lines(model) + expert_lines(model);
}

} // namespace sluice::telemetry
