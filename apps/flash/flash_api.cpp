#include "flash_api.h"

#include <algorithm>
#include <utility>

namespace sluice::flash {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json &json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// As llama.cpp's server says it.
FlashReply error_reply(int status, const char *type, const std::string &message) {
    return {.status = status,
            .body = text_of({{"error", {{"code", status}, {"message", message}, {"type", type}}}})};
}

FlashReply error_reply(const Error &error) {
    switch (error.code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::Unsupported:
        return error_reply(400, "invalid_request_error", error.message);
    default:
        return error_reply(500, "server_error", error.message);
    }
}

std::string header(const FlashRequest &request, const char *name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? "" : found->second;
}

/// A browser says where a request comes from; a program need not.
bool is_from_elsewhere(const FlashRequest &request) {
    if (const std::string site = header(request, "sec-fetch-site"); !site.empty()) {
        return site != "same-origin" && site != "none";
    }
    const std::string origin = header(request, "origin");
    const size_t host = origin.find("://");
    return !origin.empty() &&
           (host == std::string::npos || origin.substr(host + 3) != header(request, "host"));
}

/// The body, or what is wrong with the request. Only pages of this server can send JSON to it: others'
/// browsers ask first, and are not let.
std::optional<FlashReply> refuse(const FlashRequest &request, nlohmann::json &body) {
    if (is_from_elsewhere(request)) {
        return error_reply(403, "permission_error", "a page of another origin may not change this server");
    }
    if (!header(request, "content-type").starts_with("application/json")) {
        return error_reply(400, "invalid_request_error", "the request needs Content-Type: application/json");
    }
    body = nlohmann::json::parse(request.body, nullptr, false);
    if (!body.is_object()) {
        return error_reply(400, "invalid_request_error", "the request's body is no JSON object");
    }
    return std::nullopt;
}

} // namespace

FlashApi::FlashApi(IFlashModels &models, StartFacts start, bool samples)
    : models_(models), start_(std::move(start)), monitor_(models, samples) {
}

std::string FlashApi::state_text(bool with_history) {
    using namespace std::chrono;
    const auto uptime = duration_cast<milliseconds>(steady_clock::now() - begun_);
    const std::vector<Watched> watched = monitor_.models();
    const std::lock_guard lock(mutex_);
    return text_of(state_json(start_, uptime, watched, changed_, with_history));
}

FlashReply FlashApi::state() {
    monitor_.look();
    return {.body = state_text(true)};
}

std::optional<std::string> FlashApi::next_event(uint64_t &seen) {
    const auto samples = monitor_.wait_for_sample(seen);
    if (!samples) {
        return std::nullopt;
    }
    seen = *samples;
    return "data: " + state_text(false) + "\n\n";
}

FlashReply FlashApi::change_model(const nlohmann::json &wanted) {
    const auto present = models_.models();
    const auto is_meant = [&wanted](const auto &model) {
        return !wanted.contains("model") || wanted["model"] == model->id();
    };
    const auto found = std::find_if(present.begin(), present.end(), is_meant);
    if (found == present.end()) {
        return error_reply(404, "not_found_error", "there is no such model");
    }
    IFlashModel &model = **found;
    const nlohmann::json values = wanted.value("values", nlohmann::json());
    const std::lock_guard lock(mutex_);
    if (auto changed = change_settings(model, values); !changed) {
        return error_reply(changed.error());
    }
    std::set<std::string> &names = changed_[model.id()];
    for (const auto &[name, value] : values.items()) {
        names.insert(name);
    }
    return {.body = text_of({{"settings", settings_json(start_, model.facts(), names)}})};
}

FlashReply FlashApi::change(const FlashRequest &request) {
    nlohmann::json body;
    if (auto refused = refuse(request, body)) {
        return *refused;
    }
    return change_model(body);
}

FlashReply FlashApi::trim(const FlashRequest &request) {
    nlohmann::json body;
    if (auto refused = refuse(request, body)) {
        return *refused;
    }
    uint64_t freed = 0;
    for (const auto &model : models_.models()) {
        freed += model->trim();
    }
    return {.body = text_of({{"freed_bytes", freed}})};
}

std::string FlashApi::metrics() {
    return metrics_text(models_.models());
}

} // namespace sluice::flash
