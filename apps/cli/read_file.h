// Whole files as text.
#pragma once

#include "sluice/error.h"

#include <string>

namespace sluice::cli {

/// What is in the file. Errors: NotFound (cannot be opened), Io.
Result<std::string> read_file(const std::string &path);

} // namespace sluice::cli
