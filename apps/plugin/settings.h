// What the environment asks of the plug-in.
#pragma once

#include "base/error.h"
#include "options/options.h"

namespace sluice::plugin {

struct Settings {
    ModelOptions model;   ///< with a path: only that file is streamed
    bool is_off = false;  ///< SLUICE_MOE_STREAM=off
    bool summary = false; ///< SLUICE_SUMMARY=1: counts of each model when it is freed
};

/// Errors: InvalidArgument, naming a variable that is not known, has a value that it does not take, or asks
/// for what only Sluice's own programs can do.
Result<Settings> read_settings();

} // namespace sluice::plugin
