// The one list of what can be asked of streaming: a name, a value and a sentence each. Command lines, the
// C interface and a plug-in's environment read it.
#pragma once

#include "base/error.h"
#include "options/plan_request.h"

#include <span>
#include <string>
#include <string_view>

namespace sluice::options {

/// One option. Plain data.
struct StreamOption {
    std::string_view name;  ///< as on a command line, without dashes: "cache-mb"
    std::string_view value; ///< what it takes, for people; empty: a switch, which is "on" or "off"
    std::string_view help;  ///< one line
    bool lossy = false;     ///< the text becomes another than the model's
    Status (*set)(PlanRequest &request, std::string_view value) = nullptr;
};

/// All of them, in the order in which they are shown.
std::span<const StreamOption> stream_options();

/// Sets one by name. Errors: InvalidArgument, naming option and value, if there is none of that name or it
/// does not take that value; `request` is as it was then.
Status set_stream_option(PlanRequest &request, std::string_view name, std::string_view value);

/// The environment variable of an option: "SLUICE_CACHE_MB".
std::string variable_of(const StreamOption &option);

/// Sets what variables of the environment say. Errors: as set_stream_option(), naming the variable, also for
/// a variable that begins with SLUICE_ and is no option's nor among `others`.
Status read_environment(PlanRequest &request, std::span<const std::string_view> others);

} // namespace sluice::options
