// The buffer type of streamed weights: address space, not memory. What graphs need of it comes slice by slice
// or row by row; the rest can be neither read nor written by mistake.
#pragma once

#include "backend/streamed_store.h"

#include "ggml-backend-impl.h"

namespace sluice::backend {

/// Fills in `type`, whose device is `device`.
void describe_buffer_type(ggml_backend_buffer_type &type, ggml_backend_dev_t device);

/// The store of the weights in `buffer`, which is of our type; null for the empty ones that a loader asks
/// questions with.
StreamedStore *store_in(ggml_backend_buffer_t buffer);

} // namespace sluice::backend
