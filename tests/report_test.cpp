// sluice report: the page that it makes, as a browser shows it, and the files that it refuses.

#include "support/pages.h"
#include "support/sample_runs.h"

#include <filesystem>

namespace sluice::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int failed = 1;
constexpr int usage = 2;

/// Makes a page of files and returns its path.
std::string report_of(const std::vector<std::string> &files, const std::string &path) {
    std::vector<std::string> arguments = {"report"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    arguments.insert(arguments.end(), {"-o", path});
    const ChildResult result = sluice(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, path + "\n");
    EXPECT_EQ(result.err, "");
    return path;
}

/// Three runs of one model, of which the last was stopped early.
std::vector<std::string> three_runs(const PageDir &dir) {
    return {
        dir.write("next-use-2000.csv", sample_csv({.hit_rate = 0.93, .speculative = true})),
        dir.write("lru-2000.csv", sample_csv({.config = {{"policy", "lru"}}, .hit_rate = 0.86, .seed = 2})),
        dir.write(
            "next-use-600.csv",
            sample_csv({.config = {{"cache_MiB", "600"}, {"instrumented", "yes"}, {"row_stream", "yes"}},
                        .tokens = 130,
                        .hit_rate = 0.78,
                        .resident_mib = 600,
                        .rows = true,
                        .seed = 3,
                        .end = "interrupted"})),
    };
}

// -- the page
// -----------------------------------------------------------------------------------------------------

TEST(ReportPage, ComparesRunsInATableAndInChartsThatAreDrawn) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const nlohmann::json seen = open_page(report_of(three_runs(dir), dir / "report.html"), R"(
        const rows = [...document.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) =>
            (cell.className === 'differs' ? '!' : '') + cell.textContent));
        const datasets = Object.values(Chart.instances).map(({ data }) => data.datasets.map(({ label }) => label));
        const colours = new Set(Chart.instances[0].data.datasets.map(({ borderColor }) => borderColor));
        return { rows, datasets, colours: colours.size };)");
    // Speed, bars, parts of three runs, hit rate, three kinds of reads, memory.
    expect_sound(seen, 10);

    const std::string text = seen["text"];
    EXPECT_THAT(text, HasSubstr("Sluice: 3 runs compared"));
    EXPECT_THAT(text,
                HasSubstr("next-use-600 was interrupted; what is shown is only what it had done by then"));
    EXPECT_THAT(text, HasSubstr("next-use-600 was instrumented"));
    EXPECT_THAT(text, HasSubstr("Fastest: next-use-2000, "));
    EXPECT_THAT(text, HasSubstr("times the speed of the slowest, next-use-600 (interrupted, instrumented)"));
    const nlohmann::json &rows = seen["probe"]["rows"];
    EXPECT_THAT(rows, testing::Contains(nlohmann::json({"cache", "2,000 MiB", "2,000 MiB", "!600 MiB"})));
    EXPECT_THAT(rows, testing::Contains(nlohmann::json({"policy", "next-use", "!lru", "next-use"})));
    EXPECT_THAT(rows, testing::Contains(nlohmann::json({"threads", "2", "2", "2"}))) << "among the same ones";
    EXPECT_EQ(seen["probe"]["colours"], 3) << "one for each run";
    const nlohmann::json bars = {
        "computing", "waiting for experts", "waiting for rows", "cache bookkeeping", "sampling", "other"};
    EXPECT_EQ(seen["probe"]["datasets"][1], bars);
}

TEST(ReportPage, FitsAPhoneInTheDarkAndPaper) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const nlohmann::json seen = open_page(report_of(three_runs(dir), dir / "report-phone.html"), R"(
        const look = () => ({ width: document.documentElement.scrollWidth, background:
            getComputedStyle(document.body).backgroundColor, blank: document.querySelectorAll('canvas[role]').length -
            [...document.querySelectorAll('canvas[role]')].filter(coloured_pixels).length });
        const screen = look();
        dispatchEvent(new Event('beforeprint'));
        const paper = look();
        const opened = document.querySelectorAll('details:not([open])').length === 0;
        dispatchEvent(new Event('afterprint'));
        return { inner: innerWidth, screen, paper, opened, after: look() };)",
                                          {.width = 500, .height = 900, .dark = true});
    expect_sound(seen, 10);
    const nlohmann::json &probe = seen["probe"];
    EXPECT_LE(probe["screen"]["width"], probe["inner"]) << "wider than the screen";
    EXPECT_EQ(probe["screen"]["background"], "rgb(22, 24, 26)");
    EXPECT_EQ(probe["paper"]["background"], "rgb(255, 255, 255)");
    EXPECT_EQ(probe["paper"]["blank"], 0);
    EXPECT_EQ(probe["opened"], true);
    EXPECT_EQ(probe["after"], probe["screen"]);
}

TEST(ReportPage, RunsThatDidNotEndWellAreMarkedAndMissingNumbersAreUnmeasured) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const std::string bare = "# sluice 0.1.0\n# model: bare\ntoken,phase,batch_tokens,wall_ms,hits,misses\n"
                             "0,prefill,4,100,,\n1,decode,1,50,,\n2,decode,1,,,\n# end: complete\n";
    const nlohmann::json seen = open_page(
        report_of({dir.write("a/killed.csv", sample_csv({.tokens = 20, .end = std::nullopt})),
                   dir.write("b/killed.csv", sample_csv({.tokens = 20, .end = "failed: the disk is gone"})),
                   dir.write("lossy.csv", sample_csv({.config = {{"lossy", "cache-aware routing"}}})),
                   dir.write("bare.csv", bare), dir.write("prompt.csv", sample_csv({.tokens = 0}))},
                  dir / "report-marks.html"),
        R"(return [...document.querySelectorAll('table:first-of-type thead th')].slice(0, 5)
               .map((head) => [...head.querySelectorAll('.badge')].map((badge) => badge.textContent));)");
    EXPECT_EQ(seen["errors"], nlohmann::json::array());
    const nlohmann::json marks = {{"killed"}, {"failed"}, {"lossy"}, {"complete"}, {"complete"}};
    EXPECT_EQ(seen["probe"], marks);
    const std::string text = seen["text"];
    EXPECT_THAT(text, HasSubstr("a/killed was killed: its file has no end"));
    EXPECT_THAT(text, HasSubstr("b/killed failed (the disk is gone)"));
    EXPECT_THAT(text, HasSubstr("lossy was lossy (cache-aware routing): its output may differ"));
    EXPECT_THAT(text,
                HasSubstr("bare: 2 tokens at 20 tokens/s, after 4 prompt tokens in 100 ms. Of a token's "
                          "50 ms, no part was measured."));
    EXPECT_THAT(text, HasSubstr("bare: unmeasured.")) << "its hit rate";
    EXPECT_THAT(text, HasSubstr("no token was generated."));
    EXPECT_THAT(text, Not(HasSubstr("NaN")));
}

TEST(ReportPage, TextFromFilesStaysText) {
    SLUICE_NEEDS_BROWSER();
    const PageDir dir;
    const std::string evil =
        "</script><script>window.hacked = 1</script><img src=x onerror=hacked=1>\"'&amp;";
    const std::string csv = sample_csv({.config = {{"model", evil},
                                                   {evil, "<!--<script>"},
                                                   {"__proto__", "polluted"},
                                                   {"cpu", "\xff\xe2\x80\xa8"}},
                                        .tokens = 30,
                                        .end = "failed: " + evil});
    const std::string page =
        report_of({dir.write("<svg onload=hacked=1>.csv", csv)}, dir / "report-hostile.html");
    EXPECT_THAT(text_of(page), Not(HasSubstr("<img")));
    EXPECT_THAT(text_of(page), Not(HasSubstr("<svg onload")));
    const nlohmann::json seen = open_page(page, R"(
        document.querySelectorAll('details').forEach((details) => { details.open = true; });
        return { hacked: typeof window.hacked, images: document.images.length, polluted: ({}).polluted === undefined,
                 scripts: document.scripts.length, text: document.body.innerText };)");
    EXPECT_EQ(seen["errors"], nlohmann::json::array());
    EXPECT_EQ(seen["probe"]["hacked"], "undefined");
    EXPECT_EQ(seen["probe"]["images"], 0);
    const std::string text = seen["probe"]["text"];
    EXPECT_THAT(text, HasSubstr(evil));
    EXPECT_THAT(text, HasSubstr("<!--<script>"));
    EXPECT_THAT(text, HasSubstr("<svg onload=hacked=1>"));
}

// -- the command
// --------------------------------------------------------------------------------------------------

TEST(ReportCommand, FilesThatAreNoRunsAreRefusedWithTheLine) {
    const ScratchDir dir;
    const std::string out = dir / "out/report.html";
    std::filesystem::create_directory(dir / "out");
    const auto refused = [&](const std::string &text, const std::string &part) {
        SCOPED_TRACE(part);
        expect_refused(sluice({"report", dir.write("run.csv", text), "-o", out}), failed, "run.csv" + part);
    };
    const std::string head = "# sluice 0.1.0\n# model: m\n";
    const std::string names = "token,phase,batch_tokens,wall_ms,hits\n";
    refused("", " is not a CSV file of sluice run: it is empty");
    refused("a,b\n1,2\n", " is not a CSV file of sluice run: it does not begin with \"# sluice VERSION\"");
    refused(head, " has no rows: the run ended before anything was computed");
    refused(head + names + "# summary\n# end: complete\n", " has no rows");
    refused(head + names + "1,decode,1,5", " has no rows"); // its only one is cut
    refused(head + "token,phase,batch_tokens\n", ", line 3: there is no column 'wall_ms'");
    refused(head + "token,phase,batch_tokens,wall_ms,phase\n", ", line 3: 'phase' cannot be the name");
    refused(head + "token,<script>\n", ", line 3: '<script>' cannot be the name");
    refused(head + names + "1,decode,1,5,1\n2,decode,1,5\n", ", line 5: 4 fields, not the 5 of the columns");
    refused(head + names + "1,sleep,1,5,1\n", ", line 4: the phase is prefill or decode, not 'sleep'");
    for (const std::string number : {"x", "nan", "inf", "1e999", "0x10", "1 ", " 1", "1\r", "-", "\x1b[2J"}) {
        refused(head + names + "1,decode,1,5," + number + "\n", ", line 4: '");
    }
    refused(std::string(100000, '\xff'), " is not a CSV file of sluice run");
    EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

TEST(ReportCommand, OneBadFileAmongGoodOnesRefusesThePage) {
    const ScratchDir dir;
    const std::string good = dir.write("good.csv", sample_csv({.tokens = 3}));
    expect_refused(sluice({"report", good, dir / "none.csv", "-o", dir / "r.html"}), failed,
                   "cannot open " + dir / "none.csv: No such file or directory");
    expect_refused(sluice({"report", good, dir.path(), "-o", dir / "r.html"}), failed, "Is a directory");
    EXPECT_FALSE(std::filesystem::exists(dir / "r.html"));
}

TEST(ReportCommand, UsageErrorsAreNamed) {
    const ScratchDir dir;
    const std::string good = dir.write("good.csv", sample_csv({.tokens = 3}));
    expect_refused(sluice({"report", "-o", dir / "r.html"}), usage, "CSV");
    expect_refused(sluice({"report", good}), usage, "--out");
    expect_refused(sluice({"report", good, "-o", dir.path()}), usage, "is a directory");
    expect_refused(sluice({"report", good, "-o", "/dev/null"}), usage,
                   "/dev/null exists and is not a regular");
    expect_refused(sluice({"report", good, "-o", dir.path() + "/./good.csv"}), usage,
                   "good.csv would be written over itself");
}

TEST(ReportCommand, FullDiskLeavesThePageThatWasThere) {
    if (!build_has_pages()) {
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";
    }
    const ScratchDir dir;
    const std::string good = dir.write("in/good.csv", sample_csv({.tokens = 3}));
    const std::string out = dir.write("out/r.html", "yesterday's page");
    expect_refused(sluice({"report", good, "-o", out}, {.limits = {{RLIMIT_FSIZE, 100000}}}), failed,
                   "cannot write " + out + ": File too large");
    EXPECT_EQ(text_of(out), "yesterday's page");
    const std::filesystem::directory_iterator files(dir / "out");
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "no half page is left";
    expect_refused(sluice({"report", good, "-o", dir / "none/r.html"}), failed, "No such file or directory");
    report_of({good}, out);
    EXPECT_EQ(data_of(out)["runs"][0]["text"], text_of(good));
}

TEST(ReportCommand, RunsAreCalledByAsMuchOfTheirPathsAsTellsThemApart) {
    if (!build_has_pages()) {
        GTEST_SKIP() << "this build has no pages: npm's packages were not there";
    }
    const ScratchDir dir;
    const std::string csv = sample_csv({.tokens = 3});
    const std::string once = dir.write("c/once.csv", csv);
    const std::string page =
        report_of({dir.write("a/same.csv", csv), dir.write("b/same.csv", csv), once, dir.write("plain", csv)},
                  dir / "r.html");
    std::vector<std::string> names;
    const nlohmann::json data = data_of(page);
    for (const nlohmann::json &run : data["runs"]) {
        names.push_back(run["name"]);
    }
    EXPECT_THAT(names, testing::ElementsAre("a/same", "b/same", "once", "plain"));
    EXPECT_EQ(data_of(report_of({once, once}, dir / "r.html"))["runs"][1]["name"], "once (2)");
}

} // namespace
} // namespace sluice::test
