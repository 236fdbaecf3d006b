// The port through which the expert cache is told whom to evict, and the policies there are.
#pragma once

#include "options/options.h"
#include "residency/routing_layout.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace sluice::residency {

/// One expert's slice of one bank.
struct SliceKey {
    uint32_t bank = 0;
    uint32_t expert = 0;
    bool operator==(const SliceKey &) const = default;
};

using SlotIndex = uint32_t;

/// Orders the slots of one class by how soon they may go. Not thread-safe: the cache calls it under its lock.
class IEvictionPolicy {
public:
    virtual ~IEvictionPolicy() = default;

    /// One token was routed to `experts` in `layer` of the layout, which is the layer that computes from now
    /// on; an expert that is there twice counts once. Comes before the experts' slices are asked for, and
    /// also when none of them is in this class. A ubatch of many tokens counts as what it is: its slices are
    /// asked for once, as a union, but it comes here token by token, in order, so that frequencies do not
    /// depend on how tokens were batched.
    virtual void routed(uint32_t layer, std::span<const uint32_t> experts) = 0;

    /// `slot` holds `key` and was asked for now (a hit, or a miss or a read ahead just bound to it).
    virtual void used(SlotIndex slot, SliceKey key) = 0;

    /// `slot` holds nothing any more.
    virtual void forgotten(SlotIndex slot) = 0;

    /// The slot to give up: the first in the policy's order for which `evictable` holds; empty if none does.
    virtual std::optional<SlotIndex> victim(const std::function<bool(SlotIndex)> &evictable) = 0;
};

/// Least recently used first. `slots` is the size of the class.
std::unique_ptr<IEvictionPolicy> make_lru_policy(size_t slots);

/// Least often routed to first, since the start and whether cached or not; among equals the least recently
/// used.
std::unique_ptr<IEvictionPolicy> make_lfu_policy(size_t slots, const RoutingLayout &layout);

/// Latest expected next use first: the largest d + L (1/p - 1), in layers. L is their number, d the distance
/// from the layer that computes to the slice's, counted forwards and around (L for the same layer), and p
/// the share of coming tokens expected to use the expert (see UseForecast). All slices of an expert share
/// p; those a token needs last go first. A victim costs a look at each layer, whatever the number of slots.
std::unique_ptr<IEvictionPolicy> make_next_use_policy(size_t slots, const RoutingLayout &layout);

/// Any of them.
std::unique_ptr<IEvictionPolicy> make_policy(CachePolicy policy, size_t slots, const RoutingLayout &layout);

} // namespace sluice::residency
