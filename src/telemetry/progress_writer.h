// A run as it happens, for programs: one JSON object a line. docs/telemetry.md is the format.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "session/model.h"
#include "session/session.h"
#include "telemetry/line_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::telemetry {

/// Each line is written at once. Text that is no UTF-8 goes out with replacement characters. Not thread-safe.
class ProgressWriter {
public:
    /// `where`: a number of an open file descriptor other than standard input and output, or a file to make.
    /// Errors as LineFile, and InvalidArgument for those two.
    static Result<std::unique_ptr<ProgressWriter>> create(const std::string &where);

    /// Loading is this far, 0 to 1. Lines come at most once a percent.
    void load(double fraction);
    void loaded(const ModelInfo &model);

    /// An answer begins, with a prompt of so many tokens.
    void begin_answer(size_t prompt_tokens);

    /// A batch was computed. Those of the prompt are told at once, the others with the text that follows.
    void computed(const TokenSample &sample);

    /// More text of the answer, with what was computed for it since the last piece.
    void text(std::string_view piece);

    /// The answer has ended.
    void done(StopReason reason);

    /// The run has failed.
    void error(const Error &error);

    /// The first write that failed, if one did.
    [[nodiscard]] Status status() const { return file_->status(); }

private:
    explicit ProgressWriter(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}

    /// What token lines report, summed up.
    struct Work {
        uint64_t batches = 0;
        TimeParts time;
        uint64_t read_bytes = 0;
        uint64_t hits = 0;
        uint64_t misses = 0;
        void add(const TokenSample &sample);
    };

    std::unique_ptr<LineFile> file_;
    int percent_ = -1; ///< last told
    uint64_t prompt_tokens_ = 0;
    uint64_t prompt_done_ = 0;
    Work since_text_; ///< of drawn tokens
    Work answer_;     ///< prompt included
    uint64_t index_ = 0;
};

} // namespace sluice::telemetry
