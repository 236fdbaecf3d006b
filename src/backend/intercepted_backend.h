// A CPU backend whose graphs pass through our plan first.
#pragma once

#include "ggml-backend.h"

namespace sluice::backend {

/// A real CPU backend on the CPU device, so that threads, threadpools and the abort callback behave as in
/// stock; only graph_compute is ours. Graphs without streamed weights go straight through. Null if out of
/// memory. Freed by ggml_backend_free.
ggml_backend_t make_intercepted_backend();

} // namespace sluice::backend
