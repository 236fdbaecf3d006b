// What is known of a model that was loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// What was decided and measured while loading. Bytes unless named otherwise.
struct ModelInfo {
    std::string path;
    std::string description;  ///< llama.cpp's one-line description
    std::string architecture; ///< as the file names it
    bool streaming = false;
    std::string mode_reason;      ///< one sentence: why this mode
    uint64_t file_bytes = 0;      ///< all shards together
    uint64_t streamed_bytes = 0;  ///< expert slices left on storage
    uint64_t dense_bytes = 0;     ///< weights held in memory
    uint64_t mapped_bytes = 0;    ///< of dense_bytes: mapped from the file instead of held in memory
    bool dense_locked = false;    ///< dense weights are locked in memory; once a session exists
    std::string dense_note;       ///< why dense weights are not held as asked; empty if they are
    size_t expert_banks = 0;      ///< streamed weights
    uint64_t row_table_bytes = 0; ///< weights of which only rows are read
    bool direct = false;          ///< expert reads go past the page cache
    std::string io_engine;        ///< what reads experts, such as "4 threads"
    std::string
        lossy; ///< what makes the text another than the model's, such as "--drop-cold 0.5"; else empty
    std::string io_note;        ///< what was taken instead of the engine asked for, and why; else empty
    std::string direct_refusal; ///< why not, if they were wanted and don't
    double load_seconds = 0;
    std::optional<uint64_t> load_read_bytes; ///< bytes the process asked of files while loading
    std::optional<uint64_t> load_peak_bytes; ///< highest resident set until loading ended
};

/// A weight that the graphs gather rows from, and what became of it. Only known under row streaming.
struct RowTableInfo {
    std::string name;
    uint64_t bytes = 0;
    bool streamed = false;          ///< its rows come from storage and it takes no memory of its own
    std::string reason;             ///< if not streamed: why, completing "... because"
    bool index_is_input = false;    ///< indices seen so far: inputs of the graph, read ahead at its start
    bool index_is_computed = false; ///< indices seen so far: computed by the graph
};

} // namespace sluice
