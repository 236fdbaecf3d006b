// What the tests of the pages share.
#pragma once

#include "support/browser.h"
#include "support/cli.h"
#include "support/temp_file.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::test {

inline std::string text_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The data that is in a page.
inline nlohmann::json data_of(const std::string &path) {
    const std::string page = text_of(path);
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t from = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from), nullptr, false);
}

/// Whether this build has pages. It may have none, and then says so.
inline bool build_has_pages() {
    const ScratchDir dir;
    const ChildResult result =
        sluice({"routes", dir.write("small.trace", "1 2\n1 0 1\n"), "-o", dir / "small.html"});
    if (result.exit_code != 0) {
        expect_refused(result, 1, "this build has no pages; run scripts/get-page-libraries.sh");
    }
    return result.exit_code == 0;
}

/// Where a test writes pages: a scratch folder, or the one in SLUICE_KEEP_PAGES, for people to look at.
class PageDir {
public:
    [[nodiscard]] std::string operator/(const std::string &name) const {
        const char *kept = std::getenv("SLUICE_KEEP_PAGES");
        return kept != nullptr ? std::string(kept) + "/" + name : scratch_ / name;
    }
    [[nodiscard]] std::string write(const std::string &name, const std::string &text) const {
        return scratch_.write(name, text);
    }

private:
    ScratchDir scratch_;
};

/// A page that drew itself without a complaint, and without asking anybody for anything.
inline void expect_sound(const nlohmann::json &seen, size_t canvases) {
    EXPECT_EQ(seen["errors"], nlohmann::json::array());
    EXPECT_EQ(seen["loaded"], nlohmann::json::array());
    ASSERT_EQ(seen["canvases"].size(), canvases) << seen["canvases"].dump(2);
    for (const nlohmann::json &canvas : seen["canvases"]) {
        EXPECT_GT(canvas["coloured"], 150) << canvas.dump() << " is blank";
        EXPECT_GT(canvas["label"].get<std::string>().size(), 20U) << "says what it shows";
    }
}

} // namespace sluice::test

/// Skips a test of what a browser shows where that cannot be seen.
#define SLUICE_NEEDS_BROWSER()                                                                               \
    if (!sluice::test::build_has_pages()) {                                                                  \
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";                            \
    }                                                                                                        \
    if (!sluice::test::find_browser()) {                                                                     \
        GTEST_SKIP() << "no Chromium on the PATH";                                                           \
    }
