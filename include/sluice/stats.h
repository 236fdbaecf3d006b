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

/// Totals of the row-gathered tables since the model was loaded, shared by its sessions. All 0 without
/// ModelOptions::row_stream.
struct RowStats {
    uint64_t table_bytes = 0;    ///< tables off the resident set: neither tied nor brought in whole
    uint64_t resident_bytes = 0; ///< slabs of them held now
    uint64_t rows = 0;           ///< rows gathered, repeated ones counted each time
    uint64_t reads = 0;          ///< requests made of storage
    uint64_t bytes_read = 0;     ///< bytes they asked for
    uint64_t evictions = 0;      ///< slabs given back
    uint64_t read_errors = 0;
    double stall_seconds = 0; ///< compute waited for rows
    double busy_seconds = 0;  ///< at least one request was in flight
};

/// Shares of the dense weights' bytes, 0 to 1, from a sample of their pages. Row tables are not among them.
struct DenseResidency {
    std::optional<double> resident; ///< in memory now
    std::optional<double> swapped;  ///< in swap or zram
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
    RowStats rows;
    uint64_t dense_bytes = 0;   ///< weights held in memory
    uint64_t context_bytes = 0; ///< KV cache and other per-sequence state
    uint64_t compute_bytes = 0; ///< llama.cpp's compute buffers
    DenseResidency dense_residency;
    std::optional<uint64_t> peak_resident_bytes;
};

} // namespace sluice
