// A CPU backend whose graphs pass through our plan first.
#pragma once

#include "sluice/error.h"

#include "ggml-backend.h"

#include <optional>

namespace sluice::backend {

/// A real CPU backend on the CPU device, so that threads, threadpools and the abort callback behave as in
/// stock; only graph_compute is ours. Graphs without streamed weights go straight through. Null if out of
/// memory. Freed by ggml_backend_free.
ggml_backend_t make_intercepted_backend();

/// Why the last graph of this backend failed, cleared by asking; empty if it did not fail on our account.
std::optional<Error> take_backend_error(ggml_backend_t backend);

} // namespace sluice::backend
