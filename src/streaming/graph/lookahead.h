// Guesses which experts the next routing decision will choose, while the device has nothing else to read.
#pragma once

#include "streaming/compute/expert_group.h"
#include "streaming/graph/router.h"
#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <memory>
#include <span>

namespace sluice::streaming {

/// One decision guessed ahead of its time: its router's nodes, copied, and the group it decides for. The
/// copied nodes are computed before make() is called.
class Lookahead {
public:
    /// `activations`: what the copied router is to multiply, such as this layer's own router's input. Null
    /// for a router that needs none. Null is returned if the router cannot be copied.
    static std::unique_ptr<Lookahead> create(const Router &router, ggml_tensor *activations,
                                             StreamedStore &store);

    /// The group that is decided for; it begins after make().
    void set_target(ExpertGroup *target) { target_ = target; }

    [[nodiscard]] std::span<ggml_tensor *const> nodes() const { return copy_->nodes(); }

    /// Before the graph is computed: whether it is to guess at all this time.
    void prepare();

    /// Has the guessed experts' slices read. A router that needs no activations is certain of them.
    void make();

private:
    Lookahead(std::unique_ptr<RouterCopy> copy, bool certain, StreamedStore &store)
        : copy_(std::move(copy)), certain_(certain), store_(store) {}

    std::unique_ptr<RouterCopy> copy_;
    const bool certain_;
    uint32_t wanted_ = 0; ///< experts, of the graph that is computed
    StreamedStore &store_;
    ExpertGroup *target_ = nullptr;
};

} // namespace sluice::streaming
