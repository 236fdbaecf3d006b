#include "policy_names.h"

#include "options/cache_policy.h"

namespace sluice::cli {

std::vector<std::string> policy_names() {
    std::vector<std::string> names;
    for (const CachePolicy policy : options::all_policies()) {
        names.emplace_back(options::policy_name(policy));
    }
    return names;
}

} // namespace sluice::cli
