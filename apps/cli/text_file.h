// Whole files as text, in and out.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// What is in the file, which may be a pipe. Errors: NotFound (cannot be opened), Io, InvalidFormat (more
/// than `most` bytes).
Result<std::string> read_text_file(const std::string &path, size_t most = SIZE_MAX);

/// Whether write_text_file() may write to `path`: nothing is there, or a regular file that is none of
/// `inputs`. Errors: InvalidArgument.
Status check_output(const std::string &path, const std::vector<std::string> &inputs);

/// Writes the file under a temporary name, PATH.partial, and renames it when it is whole and on the device:
/// a full disk or a killed process leaves what was there before. Errors: Io.
Status write_text_file(const std::string &path, std::string_view text);

} // namespace sluice::cli
