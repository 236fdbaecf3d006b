#include "residency/eviction_policy.h"

#include <array>

namespace sluice::residency {

std::unique_ptr<IEvictionPolicy> make_policy(CachePolicy policy, size_t slots, const RoutingLayout &layout) {
    switch (policy) {
    case CachePolicy::Lru:
        return make_lru_policy(slots);
    case CachePolicy::Lfu:
        return make_lfu_policy(slots, layout);
    case CachePolicy::NextUse:
        break;
    }
    return make_next_use_policy(slots, layout);
}

std::span<const CachePolicy> all_policies() {
    static constexpr std::array kPolicies = {CachePolicy::NextUse, CachePolicy::Lru, CachePolicy::Lfu};
    return kPolicies;
}

std::string_view policy_name(CachePolicy policy) {
    switch (policy) {
    case CachePolicy::Lru:
        return "lru";
    case CachePolicy::Lfu:
        return "lfu";
    case CachePolicy::NextUse:
        break;
    }
    return "next-use";
}

std::optional<CachePolicy> policy_named(std::string_view name) {
    for (const CachePolicy policy : all_policies()) {
        if (policy_name(policy) == name) {
            return policy;
        }
    }
    return std::nullopt;
}

} // namespace sluice::residency
