// What both sides of a comparison decode, and how they look at themselves. Links nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace sluice::bench {

/// Tokens spread over the vocabulary. Fixed tokens, not sampled ones: both sides route alike whatever they
/// compute.
inline int32_t spread(uint32_t index, size_t vocabulary) {
    uint32_t state = index * 2654435761U + 12345U;
    state ^= state >> 16U;
    state *= 2246822519U;
    state ^= state >> 13U;
    return static_cast<int32_t>(state % vocabulary);
}

inline std::vector<int32_t> prompt_tokens(size_t count, size_t vocabulary) {
    std::vector<int32_t> tokens(count);
    for (size_t i = 0; i < count; ++i) {
        tokens[i] = spread(static_cast<uint32_t>(i), vocabulary);
    }
    return tokens;
}

inline int32_t next_token(int index, size_t vocabulary) {
    return spread(100000U + static_cast<uint32_t>(index), vocabulary);
}

/// VmHWM of this process in bytes, 0 if unknown.
inline uint64_t peak_resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string key;
    while (status >> key) {
        if (key == "VmHWM:") {
            uint64_t kib = 0;
            status >> kib;
            return kib * 1024;
        }
        std::getline(status, key);
    }
    return 0;
}

} // namespace sluice::bench
