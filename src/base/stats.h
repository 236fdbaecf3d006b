// Numbers of a run. An empty optional is something that could not be measured; 0 is a measured nought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What came of guessing the next layer's experts, since the model was loaded.
struct LookaheadStats {
    uint64_t experts = 0; ///< guessed
    uint64_t right = 0;   ///< of those, chosen by their layer's router
    uint64_t reads = 0;   ///< slices read on a guess; among ExpertStats::prefetched
    uint64_t bytes = 0;   ///< of those slices
    uint64_t used = 0;    ///< of those reads, asked for while still there
    uint64_t late = 0;    ///< of those used, still on their way when asked for
    bool on = false;      ///< this session's tokens are computed with it
};

/// What came of beginning with what an earlier run held.
struct WarmStartStats {
    uint64_t reads = 0; ///< slices read for that; among ExpertStats::prefetched
    uint64_t bytes = 0;
    uint64_t used = 0; ///< of those, asked for while still there
};

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
    uint64_t dropped_experts = 0;       ///< left out by LossyOptions::drop_cold
    uint64_t substituted_experts = 0;   ///< replaced by LossyOptions::substitute
    uint64_t nodes_brought_forward = 0; ///< of graphs, to run while slices are on their way
    uint64_t repacked = 0;              ///< slices given the layout of ggml's kernels, each once per read
    double repack_seconds = 0;          ///< processor time that took
    LookaheadStats lookahead;
    WarmStartStats warm_start;
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

/// Wall time in seconds and what it was spent on. Each part is measured on the critical path; they don't
/// overlap. What compute threads wait for counts only while none of them multiplies: as long as one does, it
/// is compute.
struct TimeParts {
    double wall = 0;
    double compute = 0;     ///< ggml's graph, less the three that follow; if resident: all of llama_decode
    double expert_wait = 0; ///< no compute thread multiplied, because all waited for expert slices
    double row_wait = 0;    ///< the same for rows
    double cache = 0;       ///< none did, because graphs were planned, slots acquired or reads submitted
    double between = 0;     ///< between two decodes: sampling, and whatever callbacks do

    /// What none of them holds: llama.cpp's work around the graph, waiting for another session's graph.
    /// Less than a nanosecond is what rounding leaves, to either side of nothing.
    [[nodiscard]] double other() const {
        constexpr double kNanosecond = 1e-9;
        const double rest = wall - compute - expert_wait - row_wait - cache - between;
        return rest > -kNanosecond && rest < kNanosecond ? 0 : rest;
    }
    TimeParts &operator+=(const TimeParts &more) {
        for (double TimeParts::*part : {&TimeParts::wall, &TimeParts::compute, &TimeParts::expert_wait,
                                        &TimeParts::row_wait, &TimeParts::cache, &TimeParts::between}) {
            this->*part += more.*part;
        }
        return *this;
    }
};

/// What a batch is for.
enum class Phase {
    Prefill, ///< tokens that are known: a ubatch of a prompt
    Decode,  ///< one token that was drawn
};

/// One llama_decode: from the end of the one before it (or the start of the call) to its own end. Counts are
/// of this session's graphs; device times are of the model's readers, faults and memory of the process.
struct TokenSample {
    uint64_t computed = 0; ///< tokens that this session has computed, this batch's included
    Phase phase = Phase::Decode;
    uint32_t batch_tokens = 0;
    TimeParts time;
    uint64_t expert_reads = 0;      ///< slices read because they were asked for
    uint64_t expert_read_bytes = 0; ///< without block padding
    uint64_t speculative_reads = 0; ///< slices read before they were asked for; not among expert_reads
    uint64_t speculative_read_bytes = 0;
    uint64_t row_reads = 0; ///< requests for slabs of row tables
    uint64_t row_read_bytes = 0;
    uint64_t hits = 0;                      ///< slices asked for that were there or on their way
    uint64_t misses = 0;                    ///< slices asked for that were not
    uint64_t evictions = 0;                 ///< slices dropped to make room
    double device_busy = 0;                 ///< seconds with a read in flight; both kinds of reads added up
    uint64_t device_bytes = 0;              ///< that arrived, block padding included
    std::optional<uint64_t> major_faults;   ///< page faults that had to read
    std::optional<uint64_t> minor_faults;   ///< page faults that had not
    std::optional<uint64_t> swap_ins;       ///< pages that the whole system read from swap
    std::optional<double> cpu_seconds;      ///< processor time of all threads
    std::optional<uint64_t> resident_bytes; ///< at the end
};

/// One node of a graph, or several that ggml computes as one. The strings live as long as the call.
struct NodeSample {
    uint64_t computed = 0; ///< as in the TokenSample of the decode it belongs to
    int index = 0;         ///< in the graph that was computed, which has nodes of ours
    std::string_view op;
    std::string_view name;
    double seconds = 0;
};

/// A setting that a run tried other choices of, and what it came to. Never one that the caller gave.
struct SettledSetting {
    std::string name;   ///< such as "threads"
    std::string choice; ///< what is kept, such as "2"
    std::string why; ///< what others were found to do, such as "1 takes 40 % longer", or that none was tried
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
    TimeParts prompt_time;   ///< of Phase::Prefill, decode() included
    TimeParts generate_time; ///< of Phase::Decode, decode() of single tokens included
    ExpertStats experts;
    RowStats rows;
    uint64_t dense_bytes = 0;   ///< weights held in memory
    uint64_t context_bytes = 0; ///< KV cache and other per-sequence state
    uint64_t compute_bytes = 0; ///< llama.cpp's compute buffers
    std::optional<uint64_t> peak_resident_bytes;
    std::vector<SettledSetting> settled; ///< in a fixed order; only what this run may decide
    uint64_t tokens_tried = 0;           ///< tokens that were part of a trial
};

} // namespace sluice
