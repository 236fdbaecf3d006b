// Routing traces replayed through the cache's policies, without a model: which policy hits how often.
#pragma once

#include "options/options.h"
#include "telemetry/route_trace.h"

#include <cstddef>
#include <cstdint>

namespace sluice::tools {

/// Experts asked for, and those that were there. A slot holds one expert of one layer.
struct ReplayCounts {
    uint64_t decode_asks = 0; ///< by tokens decoded alone
    uint64_t decode_hits = 0;
    uint64_t prefill_asks = 0; ///< by tokens computed together, which ask for each expert once
    uint64_t prefill_hits = 0;
};

/// What a trace is about.
struct TraceFacts {
    uint64_t decoded_tokens = 0;
    uint64_t prefill_passes = 0; ///< ubatches of several tokens
    uint64_t cycle_slots = 0; ///< one token's working set: its experts in all layers; 0 if none was decoded
};

TraceFacts trace_facts(const telemetry::RouteTrace &trace);

/// Replays `trace` through the policy that the expert cache would use, with `slots` (at least 1) slots,
/// empty at first. As in the cache, a decision's experts stay until all of them were used, as far as there
/// are slots for them at once.
ReplayCounts replay(const telemetry::RouteTrace &trace, CachePolicy policy, size_t slots);

/// The most hits that any cache of that size could have, knowing the whole trace (Belady's MIN); it need not
/// even keep what was just used.
ReplayCounts replay_optimum(const telemetry::RouteTrace &trace, size_t slots);

} // namespace sluice::tools
