// Whether what a model computed are numbers. Damaged weights, or values too large for their type, make NaN of
// them, and a sampler draws some token from that as from anything else.
#pragma once

#include "base/error.h"

#include "llama.h"

namespace sluice::session {

/// For what llama_decode(context, batch) has computed: every logit and embedding that `batch` asked for must
/// be a number. Waits until it is computed. Errors: InvalidFormat.
Status check_outputs(llama_context *context, const llama_batch &batch);

/// Empties `context`'s memory of all that `batch` belongs to, and of values that are no numbers: they would
/// spoil what is computed beside them, though they are masked. Other sequences stay.
void clear_spoiled(llama_context *context, const llama_batch &batch);

} // namespace sluice::session
