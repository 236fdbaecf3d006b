// A file or stream of text lines, whose failures must not be lost.
#pragma once

#include "base/error.h"

#include <memory>
#include <string>
#include <string_view>

namespace sluice::telemetry {

/// Keeps the first failure: errno is another by the time anybody asks. Only whole lines reach the file,
/// however the process ends, unless the system cuts them. Not thread-safe.
class LineFile {
public:
    /// Makes or empties the file. Errors: NotFound, PermissionDenied, Io.
    static Result<std::unique_ptr<LineFile>> create(const std::string &path);

    /// Writes to a stream that is open already and stays so. Errors: InvalidArgument if it is not open for
    /// writing.
    static Result<std::unique_ptr<LineFile>> on_descriptor(int number);

    ~LineFile();
    LineFile(const LineFile &) = delete;
    LineFile &operator=(const LineFile &) = delete;

    /// Adds whole lines, newlines included. They are written when there are many, or by flush().
    void add(std::string_view lines);

    /// Writes what was added. Does nothing after a failure.
    void flush();

    /// The first failure, if there was one.
    [[nodiscard]] Status status() const;

private:
    LineFile(int number, bool owned, std::string name)
        : number_(number), owned_(owned), name_(std::move(name)) {}

    const int number_;
    const bool owned_;
    const std::string name_;
    std::string pending_;
    int error_ = 0;
};

} // namespace sluice::telemetry
