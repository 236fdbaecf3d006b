// What makes a routing decision, found from the graph alone, and a copy of it that can run elsewhere.
#pragma once

#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sluice::streaming {

/// The part of a graph that computes the ids of one routing decision.
struct Router {
    std::vector<ggml_tensor *> nodes; ///< in an order in which they can be computed; the last one is the ids
    /// What the router's matmul multiplies with its weight. Null if the ids depend on inputs of the graph
    /// alone, so that they are known before it runs.
    const ggml_tensor *activations = nullptr;
};

/// Follows the producers of `ids` back to one matmul of a weight with activations, or to graph inputs alone.
/// Empty if they come from anything else, such as two matmuls, state, or rows of `store` that would have to
/// be fetched first.
std::optional<Router> find_router(ggml_tensor *ids, StreamedStore &store);

/// A router's nodes once more, in memory of their own, multiplying other activations. Points into the graph
/// that it was made from. Its results decide nothing: they are a guess.
class RouterCopy {
public:
    /// `activations` take the place of the router's own and have their shape; null: keep the graph's inputs.
    /// Null if the shapes differ or memory is short.
    static std::unique_ptr<RouterCopy> create(const Router &router, ggml_tensor *activations);

    /// To be computed in this order.
    [[nodiscard]] std::span<ggml_tensor *const> nodes() const { return nodes_; }

    /// Whether ggml computes the nodes when it comes across them.
    void set_computed(bool computed);

    /// After computing, for one token: up to `count` expert numbers, the likeliest first. They are whatever
    /// the router made of the activations: check their range.
    [[nodiscard]] std::span<const int32_t> choice(size_t count) const;

private:
    struct ContextDeleter {
        void operator()(ggml_context *context) const { ggml_free(context); }
    };

    std::unique_ptr<ggml_context, ContextDeleter> context_; ///< owns the nodes and their data
    std::vector<ggml_tensor *> nodes_;
};

} // namespace sluice::streaming
