// Brings forward what can be computed while expert slices are on their way, such as a shared expert.
#pragma once

#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <cstddef>

namespace sluice::streaming {

/// Moves nodes in front of the first matmul of a routing decision that come after it, but need neither its
/// result nor that of any other expert matmul. Only nodes that write nothing but their own output and read
/// weights, inputs and other nodes move; they keep their order. Call before memory is allocated for the
/// graph: then the new order is as good as the old one. Nothing moves where there is no matmul to gain.
/// Returns how many nodes moved.
size_t bring_forward_independent_nodes(ggml_cgraph *graph, StreamedStore &store);

} // namespace sluice::streaming
