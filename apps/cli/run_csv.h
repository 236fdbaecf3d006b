// CSV files of `sluice run --csv` (docs/telemetry.md), checked before a page is made of them.
#pragma once

#include "base/error.h"

#include <string>
#include <string_view>

namespace sluice::cli {

/// The whole lines of `text`, if it is such a file: comments, a row of column names, rows with as many
/// fields, all of them numbers but the phase. A last line without its newline is dropped: that is how a
/// killed run leaves it. `name` begins the messages. Errors: InvalidFormat, with the number of the first bad
/// line.
Result<std::string_view> check_run_csv(std::string_view text, std::string_view name);

} // namespace sluice::cli
