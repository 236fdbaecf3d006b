// Text on standard output, whose failures must not be lost.
#pragma once

#include "base/error.h"

#include <string_view>

namespace sluice::cli {

/// Writes to standard output at once. Keeps the first failure: errno is another by the time anybody asks, and
/// a full disk or a closed pipe must not look like a whole answer. Single-threaded.
class TextOutput {
public:
    /// False if this or an earlier write failed.
    bool write(std::string_view text);

    /// The first failure, if there was one.
    [[nodiscard]] Status status() const;

private:
    int error_ = 0;
};

/// Makes failing writes visible as errors: ignores SIGPIPE and SIGXFSZ, and keeps files from being opened
/// under the numbers of standard streams that the caller closed. Call once, before anything is opened.
void prepare_standard_streams();

} // namespace sluice::cli
