// The plan of a server: what a plan decides is put into llama.cpp's parameters, and its loads are streamed
// accordingly.
#pragma once

#include "arguments.h"

#include "base/error.h"
#include "planning/plan.h"

#include "common.h"

namespace sluice::serve {

/// Plans for the model at params.model.path, with context, drafts, projector and adapters as `params` say;
/// what is not given is decided. Errors: as plan_run().
Result<RunPlan> plan_server(const Arguments &arguments, const common_params &params, bool long_lived);

/// Puts the plan into `params` and announces the model, so that llama.cpp's loading it streams. What `params`
/// then cannot have is said on standard error. Errors: as expect_model(); InvalidArgument, for a number of
/// experts that the model does not have.
Status follow_plan(const RunPlan &plan, const Arguments &arguments, common_params &params);

} // namespace sluice::serve
