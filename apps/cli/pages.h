// The HTML pages that the program carries. The build makes them of apps/report (cmake/make_pages.cmake).
#pragma once

#include <string_view>

namespace sluice::cli {

/// A page without its data, as write_page() takes it; empty if this build has no pages.
std::string_view report_page();
std::string_view routes_page();

} // namespace sluice::cli
