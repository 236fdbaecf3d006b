// How a routing trace uses the experts: counted over all of it, for people to look at.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// An expert of a layer is a slot here, numbered layer * experts + expert.
struct RouteUse {
    /// Slots that some number of consecutive decoded tokens use.
    struct Window {
        uint32_t tokens = 0;   ///< how many consecutive tokens
        double mean_slots = 0; ///< over all places where the window can begin
        uint64_t most_slots = 0;
        std::vector<uint32_t> ends;  ///< tokens (from 1) at which `slots` was looked at
        std::vector<uint64_t> slots; ///< used by the `tokens` tokens that end there
    };

    uint32_t layers = 0;
    uint32_t experts = 0;
    uint64_t tokens = 0;           ///< decoded
    uint64_t prefill_tokens = 0;   ///< lines of prefill in its first layer; a line may be a union
    std::vector<uint64_t> uses;    ///< decoded tokens that use a slot, by slot
    std::vector<uint64_t> repeats; ///< by layer: uses of experts that the token before used, too
    std::vector<bool> prefilled;   ///< by slot: used in prefill
    std::vector<Window> windows;   ///< of 1, 2, 4, ... tokens, as long as the trace has that many
};

/// Counts a trace in the format of telemetry/route_trace.h. `name` begins the messages. Errors: as
/// telemetry::parse_route_trace().
Result<RouteUse> count_route_use(std::string_view trace, std::string_view name);

} // namespace sluice::cli
