#include "streaming/compute/lossy_choice.h"

#include "streaming/compute/expert_group.h"

#include "ggml-impl.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace sluice::streaming {

namespace {

/// Routers that choose among groups give the experts of all other groups a score of minus infinity.
float finite_range(std::span<const float> scores) {
    float least = std::numeric_limits<float>::infinity();
    float most = -least;
    for (const float score : scores) {
        if (std::isfinite(score)) {
            least = std::min(least, score);
            most = std::max(most, score);
        }
    }
    return std::max(0.0F, most - least);
}

} // namespace

std::unique_ptr<LossyChoice> LossyChoice::create(ggml_tensor *ids, uint32_t layer, StreamedStore &store,
                                                 const char **refusal) {
    const LossyOptions &lossy = store.lossy();
    if (ids->ne[1] != 1 || (lossy.route_source == nullptr && lossy.substitute <= 0)) {
        return nullptr;
    }
    const ggml_tensor *producer = view_root(ids);
    const bool sorts = producer->op == GGML_OP_ARGSORT && producer->src[0]->type == GGML_TYPE_F32 &&
                       producer->data == ids->data;
    if (!sorts && lossy.route_source == nullptr) {
        *refusal =
            "--substitute does nothing in a layer whose experts are not chosen by sorting their scores";
        return nullptr;
    }
    if (producer->op == GGML_OP_NONE) {
        *refusal = "the experts of a layer are an input of the graph and stay as they are";
        return nullptr;
    }
    return std::unique_ptr<LossyChoice>(
        new LossyChoice(ids, sorts ? producer->src[0] : nullptr, layer, store));
}

void LossyChoice::make() {
    auto *chosen = static_cast<int32_t *>(ids_->data);
    const auto used = static_cast<size_t>(ids_->ne[0]);
    if (IRouteSource *source = store_.lossy().route_source; source != nullptr) {
        source->choose(layer_, {chosen, used});
    } else if (target_ != nullptr) {
        substitute();
    }
}

/// From the least of the chosen to the best: one that is missing makes way for the best scored that is there
/// and not chosen, if the scores differ by no more than a share of their range.
void LossyChoice::substitute() {
    const auto count = static_cast<size_t>(scores_->ne[0]);
    const auto used = static_cast<size_t>(ids_->ne[0]);
    const std::span<int32_t> order(static_cast<int32_t *>(view_root(ids_)->data), count);
    const std::span<const float> scores(static_cast<const float *>(scores_->data), count);
    const auto score = [&](int32_t expert) { return scores[static_cast<size_t>(expert)]; };
    const float margin = store_.lossy().substitute * finite_range(scores);
    size_t next = used; // the order goes on behind the chosen ones, best first
    for (size_t at = used; at-- > 0;) {
        if (target_->is_cached(order[at])) {
            continue;
        }
        while (next < count && !(std::isfinite(score(order[next])) && target_->is_cached(order[next]))) {
            ++next;
        }
        if (next == count) {
            return;
        }
        if (score(order[next]) >= score(order[at]) - margin) {
            std::swap(order[at], order[next]);
            ++next;
            ++store_.counters.substituted_experts;
        }
    }
}

const ggml_tensor *routing_weights(const ggml_cgraph *graph, int last_use, const ggml_tensor *ids) {
    // The last such product before the next decision: a scale of each expert's weights comes before.
    const ggml_tensor *found = nullptr;
    for (int i = last_use + 1; i < graph->n_nodes && graph->nodes[i]->op != GGML_OP_MUL_MAT_ID; ++i) {
        const ggml_tensor *node = graph->nodes[i];
        if (node->op == GGML_OP_ADD_ID) {
            return nullptr; // a bias of each expert: without the expert it would stay
        }
        const ggml_tensor *weights = node->src[1];
        if (node->op == GGML_OP_MUL && weights->ne[0] == 1 && weights->ne[1] == ids->ne[0] &&
            weights->ne[2] == ids->ne[1] && weights->type == GGML_TYPE_F32) {
            found = weights;
        }
    }
    return found;
}

} // namespace sluice::streaming
