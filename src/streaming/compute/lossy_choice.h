// Ways of using other experts than the router chose. Each changes the model's output, and none is on unless
// asked for by name.
#pragma once

#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <cstdint>
#include <memory>

namespace sluice::streaming {

class ExpertGroup;

/// Overwrites one decision's ids right after the router made them: by a source of routes, or by experts that
/// are in the cache and score almost as high as those chosen. For graphs of a single token.
class LossyChoice {
public:
    /// For the decision whose ids are `ids`, the `layer`th of its graph. Null if nothing of that kind was
    /// asked of `store`, or if the graph does not show how the ids come about (then `*refusal` says so).
    static std::unique_ptr<LossyChoice> create(ggml_tensor *ids, uint32_t layer, StreamedStore &store,
                                               const char **refusal);

    /// The group whose experts are chosen.
    void set_target(ExpertGroup *target) { target_ = target; }

    /// Must run directly behind the node that computes the ids: the scores' memory is another's soon after.
    void make();

private:
    LossyChoice(ggml_tensor *ids, const ggml_tensor *scores, uint32_t layer, StreamedStore &store)
        : ids_(ids), scores_(scores), layer_(layer), store_(store) {}
    void substitute();

    ggml_tensor *ids_;
    const ggml_tensor *scores_; ///< what the ids are the order of; null: only a source of routes is asked
    const uint32_t layer_;
    StreamedStore &store_;
    ExpertGroup *target_ = nullptr;
};

/// The tensor by which the experts' outputs behind `last_use` (index of the decision's last matmul in
/// `graph`) are weighted: a number for each position and token, computed before the experts. Null if there is
/// none, or if each expert has a bias of its own, which leaving it out would not leave out.
const ggml_tensor *routing_weights(const ggml_cgraph *graph, int last_use, const ggml_tensor *ids);

} // namespace sluice::streaming
