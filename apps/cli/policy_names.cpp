#include "policy_names.h"

#include "residency/eviction_policy.h"

namespace sluice::cli {

std::vector<std::string> policy_names() {
    std::vector<std::string> names;
    for (const CachePolicy policy : residency::all_policies()) {
        names.emplace_back(residency::policy_name(policy));
    }
    return names;
}

} // namespace sluice::cli
