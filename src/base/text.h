// Reading the small texts in which the system tells its facts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The whole of a file; empty if it cannot be opened.
std::optional<std::string> read_text(const std::string &path);

/// The number at the start of `text`, blanks before it skipped; empty if there is none.
std::optional<uint64_t> leading_number(std::string_view text);

/// The number at the start of a file.
std::optional<uint64_t> number_in_file(const std::string &path);

/// The parts of `text` between separators; none if it is empty.
std::vector<std::string_view> split(std::string_view text, char separator);

} // namespace sluice
