// Which mode. Needs only numbers, so tests can fake any machine.
#pragma once

#include "options/options.h"
#include "residency/memory_limits.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::session {

using residency::bounding_group_limit;
using residency::system_floor;

/// What the mode is decided from. Bytes; empty where it could not be measured.
struct ModeFacts {
    uint64_t file_bytes = 0;
    bool has_experts = false;                 ///< the header says that the model routes to experts
    std::optional<uint64_t> usable_memory;    ///< what could be taken now
    std::optional<uint64_t> group_limit = {}; ///< bounding_group_limit()
};

struct ModeChoice {
    bool stream = false;
    std::string reason; ///< one sentence for people
};

/// Stream or resident. Auto streams a model with experts that would not fit, weights and a margin together.
ModeChoice choose_mode(StreamMode asked, const ModeFacts &facts);

} // namespace sluice::session
