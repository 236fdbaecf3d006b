// Who wants to know which experts a model's router chooses, or to choose in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Told every routing decision of a streamed model. Calls come one at a time, from whichever thread computes,
/// and hold the computation up. An exception fails the graph, whose error says what() it was.
class IRouteSink {
public:
    virtual ~IRouteSink() = default;

    /// Once, before the first decision: how many layers decide, and among how many experts at most.
    virtual void begin(uint32_t layers, uint32_t experts) = 0;

    /// In `layer` the tokens computed together were routed to `experts`: those of the first token, then those
    /// of the next, `per_token` each. Layers come in the order in which a token passes them. A graph that
    /// fails or is cancelled ends early.
    virtual void routed(uint32_t layer, std::span<const uint32_t> experts, size_t per_token) = 0;
};

/// Chooses experts in the router's place, for benchmarks: routes of a real model on generated weights. Calls
/// come one at a time, from whichever thread computes. An exception fails the graph, as above.
class IRouteSource {
public:
    virtual ~IRouteSource() = default;

    /// One token's decision in `layer`, counted as graphs have them: writes as many different expert numbers
    /// as `experts` is long; it holds what the router chose.
    virtual void choose(uint32_t layer, std::span<int32_t> experts) = 0;
};

} // namespace sluice
