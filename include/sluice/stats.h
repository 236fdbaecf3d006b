// Numbers of a run. An empty optional is something that could not be measured; 0 is a measured nought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// Expert cache totals since the model was loaded, shared by its sessions.
struct ExpertStats {
    uint64_t hits = 0;   ///< slices found in the cache
    uint64_t misses = 0; ///< slices that had to be read
    uint64_t evictions = 0;
    uint64_t rereads = 0;      ///< misses on slices that had been read before
    uint64_t prefetched = 0;   ///< slices read before they were asked for
    uint64_t bytes_read = 0;   ///< slice bytes read, prefetched ones included
    uint64_t device_bytes = 0; ///< the same with block padding
    uint64_t read_errors = 0;
    uint64_t buffered_fallbacks = 0; ///< direct reads that had to be finished through the page cache
    double stall_seconds = 0;        ///< compute waited for slices
    uint64_t graphs = 0;             ///< graphs computed with streamed weights
    uint64_t staged_steps = 0;       ///< expert matmuls run by the stock kernel on staged weights
    uint64_t materialized = 0;       ///< streamed weights brought in whole after all
    uint64_t cache_bytes = 0;        ///< size of the slot arena
    uint64_t cache_minimum_bytes = 0;
    uint64_t token_working_set_bytes = 0; ///< slices one token touches
    size_t slots = 0;
};

/// A snapshot of a session.
struct RunStats {
    uint64_t prompt_tokens = 0;
    double prompt_seconds = 0;
    uint64_t generated_tokens = 0;
    double generate_seconds = 0;
    uint64_t generate_bytes_read = 0; ///< slice bytes read while generating
    uint64_t generate_hits = 0;
    uint64_t generate_misses = 0;
    ExpertStats experts;
    uint64_t dense_bytes = 0;   ///< weights held in memory
    uint64_t context_bytes = 0; ///< KV cache and other per-sequence state
    uint64_t compute_bytes = 0; ///< llama.cpp's compute buffers
    std::optional<uint64_t> peak_resident_bytes;
};

} // namespace sluice
