// Planning for a program that makes its context itself and holds more than one model: a server.
#pragma once

#include "base/error.h"
#include "planning/plan.h"
#include "session/session_state.h"

#include <vector>

namespace sluice::planning {

/// What of a host a plan has to know.
struct HostNeeds {
    /// The context that it will make of a plan's session, whose `context_tokens` may be 0 (then the host's
    /// default).
    session::ContextParamsOf params_of = session::context_params;
    std::vector<PlanItem> beside = {}; ///< what it holds beside the model and its context
};

/// plan_run() for `host`.
Result<RunPlan> plan_host(const PlanRequest &request, const HostNeeds &host);

} // namespace sluice::planning
