// A model to read hot sets for.
#pragma once

#include "residency/hot_set.h"

#include <vector>

namespace sluice::fuzz {

inline const residency::FileIdentity kSomeFile{.path = "/models/some.gguf", .bytes = 1000, .modified = 77};

inline std::vector<residency::Bank> two_banks() {
    return {{.name = "up", .file = nullptr, .offset = 5000, .slice_bytes = 10, .expert_count = 8},
            {.name = "down", .file = nullptr, .offset = 100, .slice_bytes = 20, .expert_count = 8}};
}

} // namespace sluice::fuzz
