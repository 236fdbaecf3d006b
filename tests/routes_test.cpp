// sluice routes: what it counts, the page as a browser shows it, and the traces that it refuses.

#include "support/pages.h"
#include "support/sample_runs.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sstream>

namespace sluice::test {
namespace {

using testing::HasSubstr;

constexpr int failed = 1;
constexpr int usage = 2;

std::string routes_of(const std::string &trace, const std::string &path) {
    const ChildResult result = sluice({"routes", trace, "-o", path});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, path + "\n");
    EXPECT_EQ(result.err, "");
    return path;
}

/// What the page says of a trace.
nlohmann::json counts_of(const std::string &trace) {
    const ScratchDir dir;
    return data_of(routes_of(dir.write("t.trace", trace), dir / "t.html"));
}

// -- counts
// -------------------------------------------------------------------------------------------------------

TEST(RouteUse, CountsEachDecodedTokenAndLeavesThePromptOut) {
    if (!build_has_pages()) {
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";
    }
    const nlohmann::json counts = counts_of("2 4\n"
                                            "0 0 0 1 2\n0 1 3\n"
                                            "1 0 0 1\n1 1 3 2\n"
                                            "1 0 1 2\n1 1 2 0\n"
                                            "1 0 1 1\n"); // a doubled expert counts once; layer 1 is missing
    EXPECT_EQ(counts["tokens"], 3);
    EXPECT_EQ(counts["prefill_tokens"], 1);
    EXPECT_EQ(counts["prefilled_slots"], 4);
    EXPECT_EQ(counts["uses"], nlohmann::json({1, 3, 1, 0, 1, 0, 2, 1}));
    EXPECT_EQ(counts["repeats"], nlohmann::json({2, 1}));
    ASSERT_EQ(counts["windows"].size(), 2U);
    EXPECT_EQ(counts["windows"][0]["slots"], nlohmann::json({4, 4, 1}));
    EXPECT_EQ(counts["windows"][0]["mean_slots"], 3);
    EXPECT_EQ(counts["windows"][1]["tokens"], 2);
    EXPECT_EQ(counts["windows"][1]["ends"], nlohmann::json({2, 3}));
    EXPECT_EQ(counts["windows"][1]["slots"], nlohmann::json({6, 4}));
    EXPECT_EQ(counts["windows"][1]["most_slots"], 6);
}

TEST(RouteUse, AgreesWithCountingOneByOne) {
    if (!build_has_pages()) {
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";
    }
    const std::string trace = sample_trace(6, 16, 3, 70);
    std::vector<std::set<uint32_t>> tokens;
    std::istringstream lines(trace);
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
        std::istringstream numbers(line);
        uint32_t phase = 0;
        uint32_t layer = 0;
        numbers >> phase >> layer;
        if (phase == 1 && layer == 0) {
            tokens.emplace_back();
        }
        for (uint32_t expert = 0; phase == 1 && numbers >> expert;) {
            tokens.back().insert(layer * 16 + expert);
        }
    }
    const nlohmann::json counts = counts_of(trace);
    ASSERT_EQ(tokens.size(), 70U);
    for (uint32_t slot = 0; slot < 96; ++slot) {
        EXPECT_EQ(counts["uses"][slot],
                  std::count_if(tokens.begin(), tokens.end(),
                                [slot](const auto &token) { return token.contains(slot); }));
    }
    for (const nlohmann::json &window : counts["windows"]) {
        const size_t length = window["tokens"];
        for (size_t end = length; end <= tokens.size(); ++end) {
            std::set<uint32_t> used;
            for (size_t i = end - length; i < end; ++i) {
                used.insert(tokens[i].begin(), tokens[i].end());
            }
            EXPECT_EQ(window["ends"][end - length], end);
            EXPECT_EQ(window["slots"][end - length], used.size());
        }
    }
}

TEST(RouteUse, LongTracesMakeNoLargePage) {
    if (!build_has_pages()) {
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";
    }
    const ScratchDir dir;
    const std::string trace = dir.write("long.trace", sample_trace(24, 64, 8, 3000));
    EXPECT_GT(std::filesystem::file_size(trace), 1500000U);
    EXPECT_LT(std::filesystem::file_size(routes_of(trace, dir / "long.html")), 400000U);
}

// -- the page
// -----------------------------------------------------------------------------------------------------

TEST(RoutesPage, DrawsAHeatMapThatAnswersThePointer) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const std::string trace = dir.write("sample.trace", sample_trace(24, 64, 6, 200));
    const nlohmann::json seen = open_page(routes_of(trace, dir / "routes.html"), R"(
        const canvas = document.querySelector('canvas[role]');
        const colour_at = (left, top) => [...canvas.getContext('2d').getImageData(
            left * devicePixelRatio, top * devicePixelRatio, 1, 1).data].join();
        const chart = () => Chart.getChart(canvas);
        const look = () => {
            const { scales: { x, y } } = chart();
            const [left, top] = [x.getPixelForValue(5), y.getPixelForValue(3)];
            const box = canvas.getBoundingClientRect();
            canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + left, clientY: box.top + top }));
            return { tip: document.querySelector('.tip').textContent, colour: colour_at(left, top),
                     first: colour_at(x.getPixelForValue(0), top), last: colour_at(x.getPixelForValue(63), top) };
        };
        const by_number = look();
        const select = document.querySelector('select');
        select.value = 'use';
        select.dispatchEvent(new Event('change'));
        return { by_number, by_use: look(), wide: document.documentElement.scrollWidth > innerWidth };)");
    expect_sound(seen, 5);
    EXPECT_THAT(
        seen["text"].get<std::string>(),
        HasSubstr("200 decoded tokens, 24 layers of 64 experts; a token uses 144 of all 1,536 experts"));
    const nlohmann::json &probe = seen["probe"];
    const std::string tip = probe["by_number"]["tip"];
    const auto uses = data_of(dir / "routes.html")["uses"].get<std::vector<int>>();
    EXPECT_THAT(tip, HasSubstr("layer 3, expert 5\n"));
    EXPECT_THAT(tip, HasSubstr(fmt::format("({} of 200)", uses[3 * 64 + 5])));
    EXPECT_THAT(probe["by_use"]["tip"].get<std::string>(), HasSubstr("place 6 of 64 in its layer"));
    EXPECT_NE(probe["by_use"]["first"], probe["by_use"]["last"]) << "sorted from hot to cold";
    EXPECT_EQ(probe["wide"], false);
}

TEST(RoutesPage, TakesTheSmallestTraceAndAHostileName) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const std::string trace = dir.write("<img src=x onerror=hacked=1>", "1 2\n1 0 1\n");
    const nlohmann::json seen = open_page(routes_of(trace, dir / "routes-small.html"),
                                          "return [typeof hacked, document.images.length];",
                                          {.width = 500, .height = 800, .dark = true});
    EXPECT_EQ(seen["errors"], nlohmann::json::array());
    EXPECT_EQ(seen["probe"], nlohmann::json({"undefined", 0}));
    EXPECT_THAT(seen["text"].get<std::string>(), HasSubstr("<img src=x onerror=hacked=1>"));
    EXPECT_THAT(seen["text"].get<std::string>(), testing::Not(HasSubstr("NaN")));
}

// -- the command
// --------------------------------------------------------------------------------------------------

TEST(RoutesCommand, FilesThatAreNoTracesAreRefusedWithTheLine) {
    const ScratchDir dir;
    const std::map<std::string, std::string> bad = {
        {"", "bad.trace is empty, and so no routing trace"},
        {"2 4\n", "bad.trace holds no routing decisions"},
        {"2 4\n0 0 1\n", "bad.trace has no decoded tokens"},
        {"# sluice 0.1.0\n", "bad.trace, line 1: '#' is not a number that can stand here"},
        {"2\n1 0 1\n", "bad.trace, line 1: a trace begins with"},
        {"0 4\n1 0 1\n", "bad.trace, line 1: there is no model of 0 layers with 4 experts"},
        {"4294967295 4294967295\n1 0 1\n", "bad.trace, line 1: there is no model of"},
        {"2 4\n2 0 1\n", "bad.trace, line 2: the phase is"},
        {"2 4\n1 2 1\n", "bad.trace, line 2: layer 2 is not below the 2"},
        {"2 4\n1 0 4\n", "bad.trace, line 2: expert 4 is not below the 4"},
        {"2 4\n1 0\n", "bad.trace, line 2: a phase, a layer and at least one expert"},
        {"2 4\n1 0 1\n1 0 -1\n", "bad.trace, line 3: '-1' is not a number that can stand here"},
        {"2 4\n1 0 1\n1 0 1", "bad.trace, line 3: it is cut short"},
    };
    for (const auto &[text, part] : bad) {
        SCOPED_TRACE(part);
        expect_refused(sluice({"routes", dir.write("bad.trace", text), "-o", dir / "r.html"}), failed, part);
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "r.html"));
}

TEST(RoutesCommand, UsageErrorsAreNamed) {
    const ScratchDir dir;
    const std::string trace = dir.write("t.trace", "1 2\n1 0 1\n");
    expect_refused(sluice({"routes", "-o", dir / "r.html"}), usage, "TRACE");
    expect_refused(sluice({"routes", trace}), usage, "--out");
    expect_refused(sluice({"routes", trace, "-o", trace}), usage, "would be written over itself");
    expect_refused(sluice({"routes", dir / "none.trace", "-o", dir / "r.html"}), failed, "No such file");
}

} // namespace
} // namespace sluice::test
