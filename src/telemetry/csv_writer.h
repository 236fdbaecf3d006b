// A run as a table: what is known about it, a row for each decode, and totals. docs/telemetry.md is the
// format.
#pragma once

#include "base/stats.h"
#include "session/model.h"
#include "telemetry/line_file.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::telemetry {

/// Names and values, in the order they are written.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// How a run ended, as the last line of its files says: "complete", "interrupted" or "failed: <reason>".
std::string outcome_of(const Status &status);

/// One line for a file's comments: "# name: value". Control characters become blanks.
std::string fact_line(std::string_view name, std::string_view value);

/// Each row is written at once: a run that is killed leaves all its rows, and no "# end". Not thread-safe.
class CsvWriter {
public:
    /// Writes the first line, with the program's `version`. Errors as LineFile::create.
    static Result<std::unique_ptr<CsvWriter>> create(const std::string &path, std::string_view version);

    /// Adds facts to the preamble; before the first row.
    void add_facts(const Facts &facts);

    void add_row(const TokenSample &sample);

    /// Writes the totals: the rows', and those of `stats` if a run came so far. Both may be null.
    void add_summary(const ModelInfo *model, const RunStats *stats);

    /// Writes how the run ended. Nothing may follow.
    void end(const Status &outcome);

    /// The first write that failed, if one did.
    [[nodiscard]] Status status() const { return file_->status(); }

private:
    explicit CsvWriter(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}
    void add_header();

    std::unique_ptr<LineFile> file_;
    bool has_header_ = false;
    uint64_t rows_ = 0;
    TokenSample totals_; ///< sums; computed, phase and resident_bytes mean nothing
};

} // namespace sluice::telemetry
