// Reading the small texts in which the system tells its facts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::storage {

/// The whole of a file; empty if it cannot be opened.
std::optional<std::string> read_text(const std::string &path);

/// The parts of `text` between separators; none if it is empty.
std::vector<std::string_view> split(std::string_view text, char separator);

} // namespace sluice::storage
