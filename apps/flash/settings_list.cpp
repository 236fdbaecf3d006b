#include "settings_list.h"

#include "options/option_table.h"
#include "settings_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace sluice::flash {

namespace {

const Setting *find_setting(const std::string &name) {
    const auto &all = all_settings();
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const Setting &each) { return each.name == name; });
    return it == all.end() ? nullptr : &*it;
}

/// "2" of "2 (1 takes 40 % longer)" as a number where it is one.
Json choice_value(const std::string &choice, const Json &otherwise) {
    const bool digits = !choice.empty() && choice.find_first_not_of("0123456789") == std::string::npos;
    return digits && choice.size() < 9 ? Json(std::stoul(choice)) : otherwise;
}

/// The word of the command line or the variable that says what the setting is to be; empty if none does.
std::string given_by(const Setting &setting, const StartFacts &start) {
    for (const std::string &word : start.arguments) {
        if (word == setting.flag() || word.starts_with(setting.flag() + "=") ||
            (word == setting.short_flag && !word.empty()) ||
            (setting.is_switch() && word == setting.off_flag())) {
            return word.substr(0, word.find('='));
        }
    }
    for (const options::StreamOption &option : options::stream_options()) {
        const std::string variable = options::variable_of(option);
        if (option.name == setting.name && std::getenv(variable.c_str()) != nullptr) {
            return variable;
        }
    }
    return {};
}

/// Who chose the setting's value, and why: what is nearest to now first.
void add_chooser(const Setting &setting, const Now &now, const std::set<std::string> &changed, Json &json) {
    const auto say = [&json](const char *who, std::string why) {
        json["set_by"] = who;
        json["reason"] = std::move(why);
    };
    if (changed.contains(setting.name)) {
        return say("panel", "");
    }
    if (const std::string by = given_by(setting, now.start); !by.empty()) {
        return say("user", by);
    }
    for (const SettledSetting &settled : now.model.settled) {
        if (settled.name == setting.settled) {
            json["value"] = choice_value(settled.choice, json["value"]);
            return say("run", fmt::format("{}: {}", settled.choice, settled.why));
        }
    }
    if (setting.name == std::string_view("ram-mb") && now.start.ceiling_bytes) {
        return say("plan", now.start.ceiling_source);
    }
    for (const PlanChoice &choice : now.start.choices) {
        const std::string flag = choice.flag.substr(0, choice.flag.find(' '));
        if (flag == setting.flag() || flag == setting.off_flag() || flag == setting.short_flag) {
            return flag.empty() ? say("default", "") : say("plan", choice.reason);
        }
    }
    say("default", "");
}

Json setting_json(const Setting &setting, const Now &now, const std::set<std::string> &changed) {
    const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(nullptr); };
    std::vector<std::string> flags{setting.flag()};
    if (*setting.short_flag != 0) {
        flags.insert(flags.begin(), setting.short_flag);
    }
    Json json = {{"name", setting.name},           {"flags", flags},
                 {"off_flag", setting.off_flag()}, {"group", setting.group},
                 {"about", setting.about},         {"type", setting.type},
                 {"unit", setting.unit},           {"choices", setting.choices},
                 {"words", setting.words},         {"min", number(setting.min)},
                 {"max", number(setting.max)},     {"value", setting.value(now)}};
    add_chooser(setting, now, changed, json);
    bool applies_now = setting.now;
    if (setting.name == std::string_view("cache-mb") && now.model.cache.capacity > 0) {
        json["min"] = std::ceil(static_cast<double>(now.model.cache.minimum) / kMebibyte);
        json["max"] = std::ceil(static_cast<double>(now.model.cache.capacity) / kMebibyte);
    } else if (setting.name == std::string_view("lookahead")) {
        applies_now = now.model.can_look_ahead;
    }
    json["apply"] = applies_now ? "now" : "restart";
    json["lossy"] = setting.lossy;
    return json;
}

Status refuse(const std::string &name, const std::string &why) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} {}", name, why));
}

/// Numbers within their bounds, or one of the words.
Status check_value(const Setting &setting, const Json &json, const nlohmann::json &value) {
    const std::string name = setting.name;
    if (json["apply"] != "now") {
        return fail(ErrorCode::Unsupported, name + " takes a restart to change");
    }
    if (value.is_string()) {
        const auto word = value.get<std::string>();
        const bool known = std::find(setting.words.begin(), setting.words.end(), word) != setting.words.end();
        return known ? Status() : refuse(name, fmt::format("cannot be '{}'", word));
    }
    if (!value.is_number()) {
        return refuse(name,
                      "is a number" + (setting.words.empty()
                                           ? ""
                                           : fmt::format(" or '{}'", fmt::join(setting.words, "' or '"))));
    }
    const auto number = value.get<double>();
    if (!json["min"].is_null() && number < json["min"].get<double>()) {
        return refuse(name, fmt::format("is at least {}", json["min"].get<double>()));
    }
    if (!json["max"].is_null() && number > json["max"].get<double>()) {
        return refuse(name, fmt::format("is at most {}", json["max"].get<double>()));
    }
    return {};
}

std::optional<uint32_t> lookahead_of(const nlohmann::json &value) {
    if (value == "auto") {
        return std::nullopt;
    }
    return value == "off" ? 0U : static_cast<uint32_t>(value.get<double>());
}

/// All are checked: what still fails is the first, since nothing but the cache has needs that may have
/// changed.
Status apply_all(IFlashModel &model, const ModelFacts &facts, const nlohmann::json &values) {
    if (values.contains("cache-mb")) {
        const nlohmann::json &value = values["cache-mb"];
        const auto bytes = value == "auto"
                               ? std::nullopt
                               : std::optional(static_cast<uint64_t>(value.get<double>() * kMebibyte));
        if (auto limited = model.limit_cache(bytes); !limited) {
            return limited;
        }
    }
    if (values.contains("lookahead")) {
        if (auto set = model.set_lookahead(lookahead_of(values["lookahead"])); !set) {
            return set;
        }
    }
    if (values.contains("drop-cold") || values.contains("substitute")) {
        const LossyOptions &lossy = facts.options.lossy;
        model.set_lossy(values.value("drop-cold", lossy.drop_cold),
                        values.value("substitute", lossy.substitute));
    }
    return {};
}

} // namespace

std::vector<std::string> without_secrets(const std::vector<std::string> &arguments) {
    std::vector<std::string> told = arguments;
    for (size_t i = 0; i + 1 < told.size(); ++i) {
        const std::string &word = told[i];
        if (word == "--api-key" || word == "-hft" || word == "--hf-token") {
            told[i + 1] = "KEY";
        }
    }
    return told;
}

nlohmann::ordered_json settings_json(const StartFacts &start, const ModelFacts &model,
                                     const std::set<std::string> &changed) {
    Json list = Json::array();
    for (const Setting &setting : all_settings()) {
        list.push_back(setting_json(setting, {start, model}, changed));
    }
    return list;
}

Status change_settings(IFlashModel &model, const nlohmann::json &values) {
    if (!values.is_object() || values.empty()) {
        return fail(ErrorCode::InvalidArgument, "values is to be an object of settings by name");
    }
    const ModelFacts facts = model.facts();
    const StartFacts start;
    for (const auto &[name, value] : values.items()) {
        const Setting *setting = find_setting(name);
        if (setting == nullptr) {
            return refuse(name, "is no setting");
        }
        if (auto checked = check_value(*setting, setting_json(*setting, {start, facts}, {}), value);
            !checked) {
            return checked;
        }
    }
    return apply_all(model, facts, values);
}

} // namespace sluice::flash
