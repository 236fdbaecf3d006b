// What computing a graph takes beside its tensors.
#pragma once

#include "ggml-impl.h"

#include <cstdint>

namespace sluice::planning {

/// The largest parts that any node of the graphs seen so far asks for. Nodes run one after the other, so each
/// part is there once. Bytes.
class GraphWorkspace {
public:
    /// Looks at node `index` of `graph`, which is to be computed by so many threads. `ours`: our kernel
    /// multiplies it, unless stock's does on staged weights.
    void note(const ggml_cgraph *graph, int index, int threads, bool ours);

    [[nodiscard]] uint64_t bytes() const { return converted_ + staged_ + inner_; }

private:
    uint64_t converted_ = 0; ///< activations as our kernel wants them
    uint64_t staged_ = 0;    ///< a bank whose slices are together for the stock kernel
    uint64_t inner_ = 0;     ///< the CPU backend's own
};

} // namespace sluice::planning
