// The settings that the panel lists: those of the command line that are about streaming, in the order of its
// help.
#pragma once

#include "base/error.h"
#include "flash_model.h"
#include "planning/plan.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sluice::flash {

/// How the server was started.
struct StartFacts {
    std::string version;
    std::vector<std::string> arguments;    ///< as they were given
    SessionOptions session;                ///< as the contexts were made
    std::optional<uint64_t> ceiling_bytes; ///< what the process was told to stay under
    std::string ceiling_source;            ///< for people
    std::vector<PlanChoice> choices;       ///< of the plan
    bool router = false;                   ///< models are in processes of their own, none is in this
};

/// The words of the command line without what must not be told: API keys and tokens.
std::vector<std::string> without_secrets(const std::vector<std::string> &arguments);

/// The list for one model, as docs/flash.md has it. `changed`: names of settings that the panel changed.
nlohmann::ordered_json settings_json(const StartFacts &start, const ModelFacts &model,
                                     const std::set<std::string> &changed);

/// Checks all of `values`, a JSON object of settings by name, and then has `model` do what they say. Errors:
/// InvalidArgument and Unsupported, with a sentence that names the setting; then nothing has changed.
Status change_settings(IFlashModel &model, const nlohmann::json &values);

} // namespace sluice::flash
