// The table of settings that the panel lists: what each is called and is for, and where its value is.
#pragma once

#include "settings_list.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::flash {

using Json = nlohmann::ordered_json;

inline constexpr double kMebibyte = 1 << 20;

/// What values are read from.
struct Now {
    const StartFacts &start;
    const ModelFacts &model;
};

/// What one setting is; docs/flash.md says what the fields are.
struct Setting {
    const char *name;
    const char *group;
    const char *about;
    const char *type = "number";
    const char *unit = "";
    std::vector<std::string> choices = {};
    std::vector<std::string> words = {};
    std::optional<double> min = {};
    std::optional<double> max = {};
    Json (*value)(const Now &) = nullptr;
    const char *settled = "";    ///< what the run calls it among what it decides
    bool now = false;            ///< it may change while the server runs
    bool lossy = false;          ///< as in the table of options
    const char *short_flag = ""; ///< beside "--name"

    [[nodiscard]] bool is_switch() const { return type == std::string_view("switch"); }
    [[nodiscard]] std::string flag() const { return std::string("--") + name; }
    [[nodiscard]] std::string off_flag() const { return is_switch() ? std::string("--no-") + name : ""; }
};

/// In the order of `sluice serve --help`.
const std::vector<Setting> &all_settings();

} // namespace sluice::flash
