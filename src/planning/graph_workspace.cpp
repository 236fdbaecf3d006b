#include "planning/graph_workspace.h"

#include "streaming/compute/expert_kernel.h"

#include "ggml-cpu.h"

#include <algorithm>

namespace sluice::planning {

void GraphWorkspace::note(const ggml_cgraph *graph, int index, int threads, bool ours) {
    ggml_cgraph whole = *graph; // ggml's view wants it mutable
    const ggml_tensor *node = graph->nodes[index];
    const bool staged = ours && streaming::stock_has_batch_path(node);
    if (ours) {
        converted_ = std::max<uint64_t>(converted_, streaming::converted_bytes(node));
    }
    if (staged) {
        staged_ = std::max<uint64_t>(staged_, ggml_nbytes(node->src[0]));
    }
    if (!ours || staged) {
        const ggml_cgraph alone = ggml_graph_view(&whole, index, index + 1);
        inner_ = std::max<uint64_t>(inner_, ggml_graph_plan(&alone, threads, nullptr).work_size);
    }
}

} // namespace sluice::planning
