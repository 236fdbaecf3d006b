// What a table of a run says about the run itself: model, machine, options.
#pragma once

#include "options/options.h"
#include "session/model.h"
#include "session/session.h"
#include "telemetry/csv_writer.h"

namespace sluice::telemetry {

/// What the model is and how it is held, the context, the sampler; not its path. `seed` and the like as they
/// were asked for.
Facts model_facts(const Model &model, const ModelOptions &options, const Session &session,
                  const SessionOptions &session_options, const SamplingOptions &sampling);

/// The time now and this machine. What can't be told is empty.
Facts machine_facts();

/// As `--dense-weights` spells it.
const char *dense_weights_name(DenseWeights how);

} // namespace sluice::telemetry
