// What a caller says about reading: whether it can be meant, and what of it has an effect.
#pragma once

#include "base/error.h"
#include "options/options.h"
#include "planning/memory_needs.h"
#include "planning/plan.h"

#include <optional>
#include <string>

namespace sluice::planning {

/// The engine that the options ask for, one way or the other: how many threads read is said of threads, how
/// many reads are in flight of io_uring. Errors: InvalidArgument if they ask for both.
Result<IoEngine> engine_asked_for(const ModelOptions &model);

/// How slices are read and whether any are guessed, as far as it is given; the reason says what is left to be
/// found out.
PlanChoice reading_choice(const ModelOptions &model);

/// A sentence that names the flags given of which nothing comes in a run without an expert cache; empty if
/// there are none. `streaming`: rows may be read.
std::optional<std::string> without_effect(const ModelOptions &asked, bool streaming);

} // namespace sluice::planning
