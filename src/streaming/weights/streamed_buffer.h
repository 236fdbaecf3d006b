// The buffer type of streamed weights: address space, not memory. What graphs need of it comes slice by slice
// or row by row; the rest can be neither read nor written by mistake.
#pragma once

#include "streaming/weights/streamed_store.h"

#include "ggml-backend-impl.h"

namespace sluice::streaming {

/// Fills in `type`, whose device is `device`.
void describe_buffer_type(ggml_backend_buffer_type &type, ggml_backend_dev_t device);

/// Whether describe_buffer_type() filled `type` in.
bool is_streamed_type(ggml_backend_buffer_type_t type);

/// Whether `tensor` (or what it views) lies in a streamed buffer; if so, the store it belongs to, else null.
StreamedStore *store_of(const ggml_tensor *tensor);

} // namespace sluice::streaming
