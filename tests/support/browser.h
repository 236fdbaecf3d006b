// Pages opened in a real browser: headless Chromium, as people have it, with its script engine and canvases.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sluice::test {

/// Path of a Chromium (or Chrome) on the PATH; none if there is none.
std::optional<std::string> find_browser();

/// How the page is looked at.
struct Screen {
    int width = 1100;
    int height = 900;
    bool dark = false;
};

/// Opens the page in the file and runs `probe`, the body of a JavaScript function, once it is drawn. Returns
///   probe:     what the probe returned
///   errors:    script errors, console errors, and violations of the page's content policy
///   loaded:    addresses of everything that was loaded besides the page
///   text:      what a person can read (here and in the probe's answer, all spaces are plain ones)
///   canvases:  for each, its aria-label, size, and how many pixels between its axes have a colour (no grey)
/// Records a test failure if that could not be done.
nlohmann::json open_page(const std::string &path, const std::string &probe = "return null;",
                         const Screen &screen = {});

} // namespace sluice::test
