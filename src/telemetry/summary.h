// The lines that end a run, for people.
#pragma once

#include "base/stats.h"
#include "session/model.h"

#include <string>
#include <vector>

namespace sluice::telemetry {

/// How the run was started, as one line: which mode, and why.
std::string mode_line(const ModelInfo &model);

/// What the run did: generation, prefill, moe-stream, moe-cache, memory and compute lines, each only where it
/// applies.
std::vector<std::string> summary_lines(const ModelInfo &model, const RunStats &stats,
                                       const DenseResidency &dense);

/// Bytes in the unit a person would choose: "812 KiB", "7.9 MiB", "20.1 GiB".
std::string human_bytes(uint64_t bytes);

/// What became of each table under row streaming, a line each, and a sentence if none is streamed.
std::vector<std::string> row_table_lines(const std::vector<RowTableInfo> &tables);

} // namespace sluice::telemetry
