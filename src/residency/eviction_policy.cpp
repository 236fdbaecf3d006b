#include "residency/eviction_policy.h"

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

} // namespace sluice::residency
