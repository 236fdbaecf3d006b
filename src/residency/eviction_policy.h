// The port through which the expert cache is told whom to evict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

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

    /// `slot` holds `key` and was asked for now (a hit, or a miss just bound to it).
    virtual void used(SlotIndex slot, SliceKey key) = 0;

    /// `slot` holds nothing any more.
    virtual void forgotten(SlotIndex slot) = 0;

    /// The slot to give up: the first in the policy's order for which `evictable` holds; empty if none does.
    virtual std::optional<SlotIndex> victim(const std::function<bool(SlotIndex)> &evictable) = 0;
};

/// Least recently used first. `slots` is the size of the class.
std::unique_ptr<IEvictionPolicy> make_lru_policy(size_t slots);

} // namespace sluice::residency
