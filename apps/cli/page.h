// Self-contained HTML pages: a page that the program carries, with data put into it.
#pragma once

#include "base/error.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sluice::cli {

/// Writes `page` (see pages.h) with `data` in it to `path`, as write_text_file() does. Whatever is in the
/// data stays text: none of it can end the element that holds it. Bytes that are not UTF-8 become U+FFFD.
/// Errors: Unsupported (the page is empty: this build has none), Io.
Status write_page(const std::string &path, std::string_view page, const nlohmann::json &data);

} // namespace sluice::cli
