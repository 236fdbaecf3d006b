// How near a token comes to what is physically possible: it takes at least as long as its computation does
// with everything in memory, the processor time of its reads shared among the compute threads besides, and at
// least as long as the device takes to read what the cache missed.
#pragma once

#include "compare_table.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::bench {

/// Which of `variants` gives the compute time: stock-resident-plain, whose experts have the layout of
/// streamed ones, else the first that begins with stock-resident. Throws std::runtime_error if there is none.
size_t compute_variant(const std::vector<std::string> &variants);

struct Bound {
    size_t compute_from = 0; ///< index of the variant that gives the compute time
    uint64_t slice_kib = 0;  ///< of the reads that measured the device
    int threads = 1;         ///< that compute, and that the processor time of reads is shared by
};

/// One row for each variant: its bound, how near it came, and where its tokens' time went. What is unknown
/// (the reads of a mapped file, the parts of stock's time) is "-".
void print_bounds(const Bound &bound, const std::vector<Measured> &variants);

/// The same numbers; null is unknown.
nlohmann::json bound_numbers(const Bound &bound, const std::vector<Measured> &variants);

} // namespace sluice::bench
