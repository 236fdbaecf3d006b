// Times of graph nodes as a table. docs/telemetry.md is the format.
#pragma once

#include "base/stats.h"
#include "telemetry/line_file.h"

#include <memory>
#include <string>
#include <string_view>

namespace sluice::telemetry {

/// Rows are written when a decode has ended. Not thread-safe.
class NodeWriter {
public:
    /// Errors as LineFile::create.
    static Result<std::unique_ptr<NodeWriter>> create(const std::string &path, std::string_view version);

    void add(const NodeSample &node);
    void flush() { file_->flush(); }

    /// Writes how the run ended. Nothing may follow.
    void end(const Status &outcome);

    /// The first write that failed, if one did.
    [[nodiscard]] Status status() const { return file_->status(); }

private:
    explicit NodeWriter(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}

    std::unique_ptr<LineFile> file_;
};

} // namespace sluice::telemetry
