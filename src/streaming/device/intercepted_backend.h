// A CPU backend whose graphs pass through our plan first.
#pragma once

#include "base/error.h"
#include "residency/expert_cache.h"
#include "residency/row_source.h"
#include "streaming/graph/node_trace.h"

#include "ggml-backend.h"

#include <cstdint>
#include <optional>

namespace sluice::streaming {

/// A real CPU backend on the CPU device, so that threads, threadpools and the abort callback behave as in
/// stock; only graph_compute is ours. Graphs without streamed weights go straight through. Null if out of
/// memory. Freed by ggml_backend_free.
ggml_backend_t make_intercepted_backend();

/// What the graphs of one backend did and cost, added up. With several contexts on a model each has its own.
struct GraphTotals {
    uint64_t compute_nanoseconds = 0;     ///< in ggml's graph_compute, less the three below
    uint64_t expert_wait_nanoseconds = 0; ///< no compute thread multiplied: all waited for slices
    uint64_t row_wait_nanoseconds = 0;    ///< all waited for rows
    uint64_t cache_nanoseconds = 0;       ///< none multiplied, because of planning, the cache or the window
    residency::ExpertCounters experts;
    residency::RowCounters rows; ///< but resident_bytes
};

/// Totals of this backend so far. Not while it computes.
const GraphTotals &backend_totals(ggml_backend_t backend);

/// From now on tells `sink` of each node of each graph of this backend; it computes slower then.
void trace_nodes(ggml_backend_t backend, NodeSink sink);

/// From now on the model's runtime decides how many threads compute this backend's graphs, at most `most`,
/// the number that its context takes. 0, as in the beginning: what the context says is kept. Not while it
/// computes.
void let_choose_threads(ggml_backend_t backend, int most);

/// Why the last graph of this backend failed, cleared by asking; empty if it did not fail on our account.
std::optional<Error> take_backend_error(ggml_backend_t backend);

} // namespace sluice::streaming
