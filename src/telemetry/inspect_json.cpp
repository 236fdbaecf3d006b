#include "telemetry/inspect_json.h"

#include "telemetry/inspect_text.h"
#include "telemetry/plan_text.h"

#include <nlohmann/json.hpp>

namespace sluice::telemetry {

namespace {

using nlohmann::json;

constexpr int kFormat = 1;

json tensors_json(const ModelInspection &model) {
    json tensors = json::array();
    for (const WeightInfo &weight : model.weights) {
        tensors.push_back({{"name", weight.name},
                           {"type", weight.type},
                           {"shape", weight.shape},
                           {"bytes", weight.bytes},
                           {"file", weight.file},
                           {"offset", weight.offset},
                           {"role", weight_role_name(weight.role)},
                           {"operations", weight.operations}});
    }
    return tensors;
}

json roles_json(const ModelInspection &model) {
    json roles = json::object();
    for (const WeightRole role : kWeightRoles) {
        const RoleTotals totals = role_totals(model, role);
        roles[weight_role_name(role)] = {
            {"tensors", totals.tensors}, {"bytes", totals.bytes}, {"operations", totals.operations}};
    }
    return roles;
}

json experts_json(const ModelInspection &model) {
    json slices = json::array();
    for (const SliceKind &kind : model.slices) {
        slices.push_back(
            {{"type", kind.type}, {"bytes", kind.bytes}, {"experts", kind.experts}, {"banks", kind.banks}});
    }
    json layers = json::array();
    for (const ExpertLayer &layer : model.layers) {
        layers.push_back({{"experts", layer.experts},
                          {"experts_per_token", layer.experts_per_token},
                          {"banks", layer.banks},
                          {"token_bytes", layer.token_bytes}});
    }
    return {{"bytes", model.expert_bytes},
            {"token_bytes", model.working_set_bytes},
            {"slices", slices},
            {"layers", layers}};
}

template <typename T>
json or_null(const std::optional<T> &value) {
    return value ? json(*value) : json();
}

json plan_json(const RunPlan &plan) {
    json memory = json::array();
    for (const PlanItem &item : plan.memory) {
        memory.push_back({{"what", item.what}, {"bytes", item.bytes}});
    }
    json choices = json::array();
    for (const PlanChoice &choice : plan.choices) {
        choices.push_back({{"flag", choice.flag},
                           {"reason", choice.reason},
                           {"given", choice.given},
                           {"measured", choice.measured},
                           {"only_begins", choice.only_begins}});
    }
    const bool streaming = plan.model.stream == StreamMode::Force;
    return {{"mode", streaming ? "streaming" : "resident"},
            {"cache_bytes", streaming && plan.expert_bytes > 0 ? or_null(plan.model.cache_bytes) : json()},
            {"memory", memory},
            {"peak_bytes", plan.peak_bytes},
            {"budget_bytes", or_null(plan.budget_bytes)},
            {"budget_source", plan.budget_source},
            {"choices", choices},
            {"warnings", plan.warnings},
            {"command", plan_command(plan)}};
}

} // namespace

std::string inspection_json(const ModelInspection &model, const Result<RunPlan> &plan,
                            std::string_view version) {
    const json all = {{"v", kFormat},
                      {"version", version},
                      {"files", model.files},
                      {"file_bytes", model.file_bytes},
                      {"architecture", model.architecture},
                      {"description", model.description},
                      {"roles", roles_json(model)},
                      {"experts", experts_json(model)},
                      {"tensors", tensors_json(model)},
                      {"plan", plan ? plan_json(*plan) : json()},
                      {"refusal", plan ? json() : json(plan.error().message)}};
    // Names in a damaged file need not be UTF-8.
    return all.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

} // namespace sluice::telemetry
