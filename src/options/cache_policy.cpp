#include "options/cache_policy.h"

#include <array>

namespace sluice::options {

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

} // namespace sluice::options
