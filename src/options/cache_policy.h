// The names of the cache's policies.
#pragma once

#include "options/options.h"

#include <optional>
#include <span>
#include <string_view>

namespace sluice::options {

/// All policies, the default first.
std::span<const CachePolicy> all_policies();

/// What the option "cache-policy" calls it.
std::string_view policy_name(CachePolicy policy);

/// The policy of that name; empty if there is none.
std::optional<CachePolicy> policy_named(std::string_view name);

} // namespace sluice::options
