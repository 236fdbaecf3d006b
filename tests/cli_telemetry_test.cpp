// What sluice run reports to files and streams: tables, lines of JSON, times of nodes, and how they end.

#include "support/cli.h"
#include "support/gate.h"
#include "support/run_files.h"
#include "support/temp_file.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace sluice::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

// Greedy and unpenalised, the model goes round in circles until the context ends, which is far away.
const Arguments endless = {"--moe-stream",     "--cache-mb", "8", "-n", "100000", "-c", "8192", "--temp", "0",
                           "--repeat-penalty", "1"};

ChildResult run(Arguments arguments, const Arguments &more = {}, const ChildOptions &options = {}) {
    arguments.insert(arguments.begin(), {"run", "-t", "1"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sluice(arguments, options);
}

const Arguments short_run = {"--moe-stream", "--cache-mb", "4", "-n", "12", "-s", "1", "-ub", "8"};

// -- tables
// -------------------------------------------------------------------------------------------------------

TEST(CliCsv, HasARowForEachDecodeAndTotalsThatAreTheirSums) {
    const ScratchDir dir;
    const ChildResult result = run(short_run, {"--csv", dir / "run.csv"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const RunTable table = read_table(dir / "run.csv");
    EXPECT_EQ(table.end, "complete");
    ASSERT_EQ(table.rows.size(), 2U + 11U)
        << "11 tokens of prompt in ubatches of 8; the 12th is not computed";
    EXPECT_EQ(table.rows[0].at("phase"), "prefill");
    EXPECT_EQ(table.rows[1].at("batch_tokens"), "3");
    EXPECT_EQ(table.rows[1].at("token"), "11");
    EXPECT_EQ(table.rows[2].at("phase"), "decode");
    for (const auto &[name, value] : table.summary) {
        if (name.starts_with("total_") && !value.empty()) {
            EXPECT_NEAR(std::stod(value), table.sum(name.substr(6)), 0.01) << name; // rows are rounded
        }
    }
    EXPECT_EQ(table.summary.at("tokens"), "12");
    EXPECT_EQ(table.summary.at("evictions"), table.summary.at("total_evictions"));
}

TEST(CliCsv, PartsOfARowAddUpToItsWallTime) {
    const ScratchDir dir;
    ASSERT_EQ(run(short_run, {"--csv", dir / "run.csv"}).exit_code, 0);
    for (const auto &row : read_table(dir / "run.csv").rows) {
        double parts = 0;
        for (const char *part :
             {"compute_ms", "expert_wait_ms", "row_wait_ms", "cache_ms", "sampling_ms", "other_ms"}) {
            parts += std::stod(row.at(part));
        }
        EXPECT_NEAR(parts, std::stod(row.at("wall_ms")), 0.001);
    }
}

TEST(CliCsv, SaysHowTheRunWasStarted) {
    const ScratchDir dir;
    ASSERT_EQ(run(short_run, {"--csv", dir / "run.csv", "-p", "A secret prompt", "--cache-policy", "lfu",
                              "--io-engine", "threads", "--io-threads", "3"})
                  .exit_code,
              0);
    RunTable table = read_table(dir / "run.csv");
    EXPECT_EQ(table.preamble["mode"], "streaming");
    EXPECT_EQ(table.preamble["cache_MiB"], "4.00");
    EXPECT_EQ(table.preamble["threads"], "1");
    EXPECT_EQ(table.preamble["instrumented"], "no");
    EXPECT_THAT(table.preamble["started"], ContainsRegex("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$"));
    EXPECT_THAT(table.preamble["sampler"], ContainsRegex("^temp=0.8 top_k=40 .*seed=1$"));
    EXPECT_THAT(table.preamble["flags"], HasSubstr("--cache-mb 4"));
    EXPECT_THAT(table.preamble["flags"], HasSubstr("--io-threads 3"));
    EXPECT_THAT(table.preamble["flags"], HasSubstr("--top-k 40")) << "defaults, too";
    EXPECT_EQ(table.preamble["policy"], "lfu");
    EXPECT_THAT(table.preamble["io_engine"], HasSubstr("threads"));
    EXPECT_THAT(table.text, Not(HasSubstr("secret")));
}

TEST(CliCsv, HasThePlannedCommandAndThePathThatWasGiven) {
    const ScratchDir dir;
    const Arguments rest = {"--moe-stream",   "-p",  "x",     "-n",         "2",
                            "--cache-policy", "lru", "--csv", dir / "a.csv"};
    const std::string link = dir / "given name.gguf";
    std::filesystem::create_symlink(embedded(), link);
    Arguments with_model = rest;
    with_model.insert(with_model.end(), {"-m", link});
    const ChildResult given = run(with_model);
    RunTable table = read_table(dir / "a.csv");
    EXPECT_EQ(table.preamble["model"], link);
    EXPECT_EQ("plan: " + table.preamble["plan"], given.err_lines().front());
    EXPECT_THAT(table.preamble["plan"], StartsWith("sluice run -m '" + link + "' --threads 1 "));
    EXPECT_THAT(table.preamble["plan"], HasSubstr(" --cache-policy lru"));
    ASSERT_EQ(run(rest).exit_code, 0);
    table = read_table(dir / "a.csv");
    const std::string file = std::filesystem::path(embedded()).filename().string();
    EXPECT_EQ(table.preamble["model"], file);
    EXPECT_THAT(table.preamble["plan"], StartsWith("sluice run -m " + file + " --threads 1 "));
    EXPECT_THAT(table.text, Not(HasSubstr(SLUICE_MODELS)));
}

TEST(CliCsv, ResidentRunLeavesEmptyWhatItDoesNotHave) {
    const ScratchDir dir;
    ASSERT_EQ(run({"--no-moe-stream", "-n", "3"}, {"--csv", dir / "run.csv"}).exit_code, 0);
    RunTable table = read_table(dir / "run.csv");
    EXPECT_EQ(table.preamble["mode"], "resident");
    EXPECT_EQ(table.preamble["policy"], "");
    EXPECT_EQ(table.rows.at(0).at("device_mib_per_s"), "");
    EXPECT_EQ(table.summary["hit_rate"], "");
    EXPECT_EQ(table.sum("expert_wait_ms"), 0.0);
}

TEST(CliCsv, InterruptedRunSaysSo) {
    const ScratchDir dir;
    const ChildResult result = run(endless, {"--csv", dir / "run.csv"}, {.signal = SIGINT});
    expect_failed(result, "interrupted");
    const RunTable table = read_table(dir / "run.csv");
    EXPECT_EQ(table.end, "interrupted");
    EXPECT_FALSE(table.rows.empty());
    EXPECT_FALSE(table.summary.empty());
}

TEST(CliCsv, KilledRunLeavesItsRowsAndNoEnd) {
    const ScratchDir dir;
    const ChildResult result = run(endless, {"--csv", dir / "run.csv"}, {.signal = SIGKILL});
    EXPECT_EQ(result.signal, SIGKILL);
    const RunTable table = read_table(dir / "run.csv");
    EXPECT_FALSE(table.end);
    EXPECT_FALSE(table.rows.empty()) << "text had been printed, so a prompt had been computed";
    EXPECT_EQ(table.text.back(), '\n') << "rows are whole";
}

TEST(CliCsv, FailedRunSaysWhy) {
    const ScratchDir dir;
    expect_failed(run({"-m", dir / "none.gguf", "-p", "x"}, {"--csv", dir / "run.csv"}), "none.gguf");
    EXPECT_THAT(read_table(dir / "run.csv").end.value_or(""), StartsWith("failed: "));
    EXPECT_THAT(read_table(dir / "run.csv").end.value_or(""), HasSubstr("none.gguf"));
    const std::string model = tiny_model("tiny-qwen3moe");
    expect_failed(run({"-m", model, "-p", "x", "--moe-stream"}, {"--csv", dir / "run.csv"}),
                  "has no vocabulary");
    EXPECT_THAT(read_table(dir / "run.csv").end.value_or(""), HasSubstr("has no vocabulary"));
}

TEST(CliCsv, FileThatCannotBeMadeEndsTheRunBeforeItBegins) {
    const ScratchDir dir;
    for (const char *flag : {"--csv", "--progress", "--decode-trace"}) {
        expect_refused(run(short_run, {flag, dir / "none/run.csv"}), 1,
                       "none/run.csv: No such file or directory");
    }
}

TEST(CliCsv, FullDiskEndsTheRunWithASentence) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "there is no /dev/full here";
    }
    for (const char *flag : {"--csv", "--progress", "--decode-trace"}) {
        SCOPED_TRACE(flag);
        expect_failed(run(endless, {flag, "/dev/full"}), "cannot write /dev/full: No space left on device");
    }
}

TEST(CliCsv, DiskThatFillsUpOnTheWayEndsTheRunWithASentence) {
    const ScratchDir dir;
    const ChildResult result =
        run(endless, {"--csv", dir / "run.csv"}, {.limits = {{RLIMIT_FSIZE, rlim_t{4} << 10}}});
    expect_failed(result, "cannot write " + dir / "run.csv");
}

// -- progress
// -----------------------------------------------------------------------------------------------------

std::vector<nlohmann::json> events_in(const std::string &text) {
    std::vector<nlohmann::json> events;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("{")) {
            events.push_back(nlohmann::json::parse(line));
            EXPECT_EQ(events.back().at("v"), 1);
        }
    }
    return events;
}

TEST(CliProgress, TellsLoadingThePromptEachTokenAndTheEnd) {
    const ScratchDir dir;
    const ChildResult result = run(short_run, {"--raw", "-p", "Once upon a time", "--progress", dir / "p"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> order;
    std::string text;
    uint64_t next = 0;
    for (const nlohmann::json &event : events_in(read_text(dir / "p"))) {
        const std::string name = event.at("event");
        if (order.empty() || order.back() != name) {
            order.push_back(name);
        }
        if (name == "token") {
            text += event.at("text").get<std::string>();
            EXPECT_GE(event.at("index").get<uint64_t>(), next);
            next = event.at("index").get<uint64_t>() + 1;
        }
    }
    EXPECT_EQ(order, (std::vector<std::string>{"load", "prefill", "token", "done"}));
    EXPECT_EQ("Once upon a time" + text + "\n", result.out) << "deltas, not what was told before";
}

TEST(CliProgress, TokensAndTheEndAddUp) {
    const ScratchDir dir;
    ASSERT_EQ(run(short_run, {"--progress", dir / "p", "--csv", dir / "c"}).exit_code, 0);
    double wall = 0;
    double done = 0;
    for (const nlohmann::json &event : events_in(read_text(dir / "p"))) {
        if (event.at("event") == "done") {
            done = event.at("wall_ms");
            EXPECT_EQ(event.at("reason"), "token_limit");
            EXPECT_EQ(event.at("computed_tokens"), 11);
        } else if (event.contains("wall_ms")) {
            wall += event.at("wall_ms").get<double>();
        }
    }
    EXPECT_NEAR(wall, done, 0.01);
    EXPECT_NEAR(read_table(dir / "c").sum("wall_ms"), done, 0.01);
}

TEST(CliProgress, GoesToAnOpenFileDescriptor) {
    const ChildResult result = run(short_run, {"--progress", "2"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_GT(events_in(result.err).size(), 12U);
    expect_refused(run(short_run, {"--progress", "77"}), 2, "file descriptor 77 is not open for writing");
    expect_refused(run(short_run, {"--progress", "1"}), 2, "--progress needs a stream of its own");
}

TEST(CliProgress, FailureIsTheLastEvent) {
    const ScratchDir dir;
    expect_failed(run({"-m", dir / "none.gguf", "-p", "x"}, {"--progress", dir / "p"}), "none.gguf");
    nlohmann::json last = events_in(read_text(dir / "p")).back();
    EXPECT_EQ(last.at("event"), "error");
    EXPECT_EQ(last.at("code"), "not_found");
    EXPECT_THAT(last.at("message").get<std::string>(), HasSubstr("none.gguf"));
    expect_failed(run(endless, {"--progress", dir / "p"}, {.signal = SIGINT}), "interrupted");
    last = events_in(read_text(dir / "p")).back();
    EXPECT_EQ(last.at("event"), "error");
    EXPECT_EQ(last.at("code"), "interrupted");
}

// -- times of nodes
// -----------------------------------------------------------------------------------------------------

TEST(CliDecodeTrace, HasEachNodeAndTheSameText) {
    const ScratchDir dir;
    const ChildResult traced =
        run(short_run, {"--decode-trace", dir / "nodes.csv", "--csv", dir / "run.csv"});
    ASSERT_EQ(traced.exit_code, 0) << traced.err;
    EXPECT_EQ(traced.out, run(short_run).out);
    const RunTable nodes = read_table(dir / "nodes.csv");
    EXPECT_EQ(nodes.preamble.at("instrumented"), "yes");
    EXPECT_EQ(read_table(dir / "run.csv").preamble.at("instrumented"), "yes");
    EXPECT_EQ(nodes.end, "complete");
    EXPECT_EQ(nodes.rows.front().at("token"), "8");
    EXPECT_EQ(nodes.rows.back().at("token"), "22");
    EXPECT_EQ(nodes.rows.back().at("name"), "result_output");
    const auto multiplies = [](const auto &row) { return row.at("name") == "multiply_experts"; };
    EXPECT_EQ(std::count_if(nodes.rows.begin(), nodes.rows.end(), multiplies), 13 * 2 * 8)
        << "two expert steps in each of 8 layers";
}

} // namespace
} // namespace sluice::test
