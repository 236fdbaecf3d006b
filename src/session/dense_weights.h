// What becomes of dense weights once they are placed: read ahead, locked, and watched.
#pragma once

#include "session/model_state.h"

namespace sluice::session {

/// Whether this build can hold dense weights so. Errors: InvalidArgument.
Status check_dense_weights(DenseWeights mode);

/// Reads the mapped dense weights in, in file order, when DenseWeights::Warm was asked for. `progress` (may
/// be empty) is called with 0..1; false cancels. Errors: Cancelled.
Status warm_dense_weights(const ModelState &model, const std::function<bool(float)> &progress);

/// Locks the dense weights when DenseWeights::Locked was asked for. What the system's limit forbids is noted
/// in ModelInfo::dense_note, and the weights stay unlocked. Once a context was made: only graphs tell which
/// buffers hold them.
void lock_dense_weights(ModelState &model);

/// Where the dense weights are now; nothing can be told of a resident model, which llama.cpp holds alone.
DenseResidency dense_residency(const ModelState &model);

} // namespace sluice::session
