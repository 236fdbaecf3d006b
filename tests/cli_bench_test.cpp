// sluice bench: which settings run and in which order, numbers against the runs they come from, settings that
// fail.

#include "support/cli.h"
#include "support/docs.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

namespace sluice::test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

constexpr int failed = 1;
constexpr int usage = 2;

/// A short benchmark of a model that has no vocabulary: 3 layers of 16 experts, 4 used.
ChildResult bench(const Arguments &more, const ChildOptions &options = {}) {
    Arguments arguments = {"bench", "-m", tiny_model("tiny-qwen3moe"), "-p", "8", "-n", "6", "-c", "64"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sluice(arguments, options);
}

/// What each line on standard error is about: "round 1 of 2: FLAGS".
Arguments order_of(const ChildResult &result) {
    Arguments order;
    for (const std::string &line : result.err_lines()) {
        order.push_back(line.substr(0, line.rfind(": ")));
    }
    return order;
}

TEST(CliBench, RunsEveryCombinationRoundByRound) {
    const ChildResult result = bench(
        {"--moe-stream", "--rounds", "2", "--cache-mb", "2,8", "--cache-policy", "lru,next-use", "-t", "1"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    Arguments expected;
    for (const char *round : {"round 1 of 2: ", "round 2 of 2: "}) {
        for (const char *cache : {"2", "8"}) {
            for (const char *policy : {"lru", "next-use"}) {
                expected.push_back(std::string(round) + "--ctx-size 64 --threads 1 --moe-stream --cache-mb " +
                                   cache + " --cache-policy " + policy);
            }
        }
    }
    EXPECT_EQ(order_of(result), expected);
    const Arguments rows = split(result.out, '\n');
    ASSERT_EQ(rows.size(), 6U) << result.out; // the last one ends with a newline
    EXPECT_THAT(rows[0], ContainsRegex("^cache-mb +cache-policy +mode +ms per token +quartiles +speed "));
    EXPECT_THAT(rows[1], ContainsRegex("^ *2 +lru +streaming +[0-9.]+ +[0-9.]+ - [0-9.]+ +1\\.00 "));
    EXPECT_THAT(rows[4], ContainsRegex("^ *8 +next-use +streaming "));
}

TEST(CliBench, NumbersAreThoseOfTheRuns) {
    const ScratchDir dir;
    ASSERT_EQ(bench({"--moe-stream", "--cache-mb", "1,8", "-t", "1", "-r", "2", "--lookahead", "off",
                     "--json", dir / "b.json"})
                  .exit_code,
              0);
    const json all = json::parse(read_text(dir / "b.json"));
    ASSERT_EQ(all["settings"].size(), 2U);
    for (const json &setting : all["settings"]) {
        std::vector<double> tokens;
        uint64_t misses = 0;
        ASSERT_EQ(setting["runs"].size(), 2U);
        for (const json &run : setting["runs"]) {
            const auto times = run["token_ms"].get<std::vector<double>>();
            EXPECT_EQ(times.size(), 6U);
            tokens.insert(tokens.end(), times.begin(), times.end());
            EXPECT_EQ(run["hits"].get<uint64_t>() + run["misses"].get<uint64_t>(), 6U * 3 * 4 * 3)
                << "tokens x layers x experts used x banks";
            EXPECT_EQ(run["read_bytes"], run["misses"].get<uint64_t>() * 36864)
                << "256 x 256 weights in q4_K";
            EXPECT_EQ(run["mode"], "streaming");
            misses += run["misses"].get<uint64_t>();
        }
        std::sort(tokens.begin(), tokens.end());
        EXPECT_DOUBLE_EQ(setting["ms_per_token"]["median"], (tokens[5] + tokens[6]) / 2);
        EXPECT_NEAR(setting["hit_rate"], 1 - static_cast<double>(misses) / (2 * 216), 1e-9);
        EXPECT_NEAR(setting["read_bytes_per_token"], static_cast<double>(misses) * 36864 / 12, 1e-3);
        EXPECT_NEAR(setting["speed"],
                    all["settings"][0]["ms_per_token"]["median"].get<double>() /
                        setting["ms_per_token"]["median"].get<double>(),
                    1e-9);
    }
    EXPECT_LT(all["settings"][0]["hit_rate"], all["settings"][1]["hit_rate"]);
    // With room for all. Else a slot whose read is under way can't be chosen, so hits depend on timing.
    EXPECT_EQ(all["settings"][1]["runs"][0]["hits"], all["settings"][1]["runs"][1]["hits"])
        << "the same tokens";
}

TEST(CliBench, MarkdownIsATable) {
    const ChildResult result = bench({"-t", "1,2", "-r", "1", "--md"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out,
                StartsWith("| threads | mode | ms per token | quartiles | speed | prefill tokens/s | "
                           "load s | peak MiB | hit rate | MiB read per token |\n"
                           "|---|---|---|---|---|---|---|---|---|---|\n"
                           "| 1 | streaming | "));
    EXPECT_THAT(result.out, HasSubstr("\n| 2 | streaming | "));
}

TEST(CliBench, SettingThatFailsIsToldAndTheOthersRun) {
    const ScratchDir dir;
    const ChildResult result = bench({"--ram-mb", "16,200", "-t", "1", "-r", "2", "--json", dir / "b.json"});
    expect_failed(result, "1 of 2 settings failed");
    EXPECT_THAT(order_of(result).size(), 4U) << "one failure, two rounds of the other, and the end";
    EXPECT_THAT(result.out, ContainsRegex("\n +16 +failed\n +200 +streaming +[0-9.]+ "));
    EXPECT_THAT(result.out,
                ContainsRegex("\nfailed: --ctx-size 64 --threads 1 --ram-mb 16: .*MiB are missing"));
    const json settings = json::parse(read_text(dir / "b.json"))["settings"];
    EXPECT_THAT(settings[0]["failure"].get<std::string>(), HasSubstr("MiB are missing"));
    EXPECT_TRUE(settings[0]["ms_per_token"]["median"].is_null());
    EXPECT_TRUE(settings[1]["failure"].is_null());
    EXPECT_TRUE(settings[1]["speed"].is_null()) << "there is nothing to compare with";
}

TEST(CliBench, TokensThatDoNotFitTheContextFail) {
    const ChildResult result =
        sluice({"bench", "-m", tiny_model("tiny-qwen3moe"), "-p", "300", "-n", "6", "-c", "64", "-r", "1"});
    expect_failed(result, "1 of 1 settings failed");
    EXPECT_THAT(result.out, HasSubstr("306 tokens do not fit the context of "));
}

TEST(CliBench, CtrlCStopsWithoutATable) {
    const ChildResult result =
        bench({"-r", "1000", "-t", "1"}, {.signal = SIGINT, .signal_when = "round 2 of 1000: "});
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, failed);
    EXPECT_THAT(result.err_lines().back(), ContainsRegex("^sluice: interrupted after [0-9]+ runs of 1000$"));
}

TEST(CliBench, JsonHasThePagesMembers) {
    const ScratchDir dir;
    ASSERT_EQ(bench({"--moe-stream", "--cache-mb", "2", "-r", "1", "--json", dir / "b.json"}).exit_code, 0);
    const json all = json::parse(read_text(dir / "b.json"));
    EXPECT_EQ(all["v"], 1);
    std::set<std::string> members;
    add_member_paths(all, "", members);
    EXPECT_EQ(members, documented_members("bench.md", "## JSON"));
}

TEST(CliBenchUsage, WrongUseIsNamedBeforeAnythingRuns) {
    const ScratchDir dir;
    expect_refused(sluice({"bench"}), usage, "--model is required");
    expect_refused(bench({"--cache-mb", "2,0"}), usage, "--cache-mb: '0' is neither");
    expect_refused(bench({"--cache-policy", "lru,none"}), usage, "--cache-policy");
    expect_refused(bench({"-t", "1,x"}), usage, "--threads");
    expect_refused(bench({"--row-stream"}), usage, "--moe-stream");
    expect_refused(bench({"-n", "0"}), usage, "--n-gen");
    expect_refused(bench({"-r", "0"}), usage, "--repetitions");
    expect_refused(bench({"--json", tiny_model("tiny-qwen3moe")}), usage, "would be written over itself");
    expect_refused(sluice({"bench", "-m", dir / "none.gguf"}), failed, "none.gguf");
    expect_refused(sluice({"bench", "-m", dir.write("text.gguf", "no model")}), failed, "text.gguf");
}

} // namespace
} // namespace sluice::test
