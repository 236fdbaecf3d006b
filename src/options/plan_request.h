// What a caller wants of a run: options, and which of them are to stay as they are.
#pragma once

#include "options/options.h"

#include <cstdint>
#include <optional>

namespace sluice {

/// What the caller wants. What is marked as given stays as it is; the rest is chosen.
struct PlanRequest {
    ModelOptions model = {};
    SessionOptions session = {}; ///< threads, context_tokens: given if above 0
    std::optional<uint64_t> ram_bytes =
        {};                    ///< ceiling on all that the process holds; empty: what is free now
    bool rows_given = false;   ///< model.row_stream
    bool ubatch_given = false; ///< session.ubatch_tokens
    bool long_lived = false;   ///< it will answer for long, as a server does: then loading is won back
};

} // namespace sluice
