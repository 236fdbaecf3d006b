// How long each node of a graph takes. Looking costs a barrier a node, so traced times are for comparing
// nodes.
#pragma once

#include "ggml-backend.h"

#include <functional>
#include <string_view>

namespace sluice::streaming {

/// One node, or several that ggml computes as one: then the first one's index and the last one's name.
struct NodeTime {
    int index = 0;
    std::string_view op; ///< joined by + where several
    std::string_view name;
    double seconds = 0; ///< from the end of the node before it to the end of this one
};

using NodeSink = std::function<void(const NodeTime &)>;

/// Computes `graph` on `inner`, a CPU backend, with a node behind each of its own that looks at the clock,
/// and tells `sink` afterwards. The graph's nodes compute what they would have computed: those that ggml
/// fuses stay next to each other. Nodes that a cancelled graph did not reach are left out. Throws
/// std::bad_alloc.
ggml_status compute_traced(ggml_backend_t inner, const ggml_cgraph *graph, const NodeSink &sink);

} // namespace sluice::streaming
