// Stands in for the pages in a build without their libraries.

#include "pages.h"

namespace sluice::cli {

std::string_view report_page() {
    return {};
}

std::string_view routes_page() {
    return {};
}

} // namespace sluice::cli
