// Routing traces on the command line: written by sluice run, compared by sluice replay.

#include "support/cli.h"
#include "support/gate.h"
#include "support/temp_file.h"
#include "telemetry/route_trace.h"
#include "tools/replay.h"

#include "gguf.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace sluice::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

constexpr int failed = 1;
constexpr int usage = 2;

/// Two layers of eight experts, two of them used at a time.
std::string small_trace() {
    std::string text = "2 8\n0 0 1 2 3\n0 1 4 5 6\n";
    for (int token = 0; token < 12; ++token) {
        text += "1 0 " + std::to_string(token % 3) + " 7\n1 1 " + std::to_string(token % 5) + " 6\n";
    }
    return text;
}

// -- sluice replay
// -------------------------------------------------------------------------------------------------

TEST(CliReplay, TableHasAColumnForEachPolicyAndTheOptimum) {
    const ScratchDir dir;
    const ChildResult result = sluice({"replay", dir.write("small.trace", small_trace())});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, ContainsRegex("small.trace: 2 layers of 8 experts; 1 prefill passes, 12 decoded "
                                          "tokens, each of 4 slots \\(a cycle\\)\n"
                                          " *cycles +slots +next-use +lru +lfu +optimum\n"
                                          " *0.50 +2 +[0-9.]+ % +0.0 % +[0-9.]+ % +[0-9.]+ %\n"));
    EXPECT_THAT(result.out, HasSubstr("\n    4.00       16"));
}

TEST(CliReplay, SizesCanBeSlotsCyclesOrMebibytes) {
    const ScratchDir dir;
    const std::string trace = dir.write("small.trace", small_trace());
    const auto table = [&trace](const Arguments &sizes) {
        Arguments all = {"replay", trace};
        all.insert(all.end(), sizes.begin(), sizes.end());
        const ChildResult result = sluice(all);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.out.substr(result.out.find("optimum\n"));
    };
    const std::string by_slots = table({"--slots", "4,6"});
    EXPECT_THAT(by_slots, ContainsRegex("1.00 +4 .*\n *1.50 +6 "));
    EXPECT_EQ(table({"--cycles", "1,1.5"}), by_slots);
    EXPECT_THAT(table({"--cache-mb", "2,3", "--slice-kb", "512"}),
                ContainsRegex("\n +2 +1.00 +4 .*\n +3 +1.50 +6 "));
}

TEST(CliReplay, PoliciesAndSeveralTracesCanBeChosen) {
    const ScratchDir dir;
    const std::string first = dir.write("first.trace", small_trace());
    const std::string second = dir.write("second.trace", small_trace());
    const ChildResult result = sluice({"replay", "--policy", "lfu,lru", "--slots", "4", first, second});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("lfu        lru    optimum"));
    EXPECT_THAT(result.out, Not(HasSubstr("next-use")));
    EXPECT_THAT(result.out, HasSubstr("first.trace"));
    EXPECT_THAT(result.out, HasSubstr("\n\n" + second));
}

TEST(CliReplay, JsonHasTheCounts) {
    const ScratchDir dir;
    const ChildResult result =
        sluice({"replay", "--json", "--slots", "16", "--policy", "lru", dir.write("a.trace", small_trace())});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char *part : {"\"layers\": 2", "\"cycle_slots\": 4", "\"decoded_tokens\": 12", "\"slots\": 16",
                             "\"lru\": {", "\"optimum\": {", "\"decode_asks\": 48", "\"prefill_asks\": 6"}) {
        EXPECT_THAT(result.out, HasSubstr(part));
    }
}

TEST(CliReplay, WithoutDecodedTokensSizesMustBeNamed) {
    const ScratchDir dir;
    const std::string trace = dir.write("prompt.trace", "2 8\n0 0 1 2 3\n0 1 4 5 6\n");
    expect_refused(sluice({"replay", trace}), failed, "has no decoded tokens");
    const ChildResult result = sluice({"replay", trace, "--slots", "4"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("unmeasured"));
}

TEST(CliReplay, DamagedTracesAreRefusedWithTheLine) {
    const ScratchDir dir;
    const auto with = [&dir](const std::string &text) { return sluice({"replay", dir.write("bad", text)}); };
    expect_refused(with("2 8\n1 0 1 2\n1 1 8 2\n"), failed, "bad, line 3: expert 8 is not below the 8");
    expect_refused(with("2 8\n1 0 1 2\n1 1 x\n"), failed, "bad, line 3: 'x' is not a number");
    expect_refused(with("2 8\n1 0 1 2\n1 1"), failed, "bad, line 3: it is cut short");
    expect_refused(with(""), failed, "bad is empty");
    expect_refused(sluice({"replay", dir / "missing"}), failed, "missing: No such file");
    expect_refused(sluice({"replay", dir.path()}), failed, "cannot read");
    expect_refused(sluice({"replay", embedded()}), failed, "line 1: ");
}

TEST(CliReplay, WrongCallsAreUsageErrors) {
    const ScratchDir dir;
    const std::string trace = dir.write("small.trace", small_trace());
    const std::vector<std::pair<Arguments, std::string>> all = {
        {{}, "TRACE"},
        {{trace, "--policy", "fifo"}, "--policy"},
        {{trace, "--slots", "0"}, "--slots"},
        {{trace, "--slots", "4,x"}, "--slots"},
        {{trace, "--slots", "4", "--cycles", "1"}, "--cycles"},
        {{trace, "--cycles", "0"}, "--cycles"},
        {{trace, "--cycles", "nan"}, "--cycles"},
        {{trace, "--cache-mb", "4"}, "--slice-kb"},
        {{trace, "--slice-kb", "4"}, "--cache-mb"},
        {{trace, "--cache-mb", "1", "--slice-kb", "1025"}, "a cache of 1 MiB has no room"},
    };
    for (const auto &[arguments, says] : all) {
        SCOPED_TRACE(testing::PrintToString(arguments));
        Arguments call = {"replay"};
        call.insert(call.end(), arguments.begin(), arguments.end());
        expect_refused(sluice(call), usage, says);
    }
}

// -- sluice run --route-trace
// --------------------------------------------------------------------------------------

ChildResult run(Arguments arguments, const ChildOptions &options = {}) {
    arguments.insert(arguments.begin(), {"run", "-t", "1", "--moe-stream", "--cache-mb", "8", "--temp", "0"});
    return sluice(arguments, options);
}

telemetry::RouteTrace read_trace(const std::string &path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    auto trace = telemetry::parse_route_trace(text.str(), path);
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? std::move(*trace) : telemetry::RouteTrace{};
}

/// The embedded model's own number for "ARCHITECTURE.`key`".
uint32_t header_number(const std::string &key) {
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> header(
        gguf_init_from_file(embedded().c_str(), {/*no_alloc=*/true, /*ctx=*/nullptr}), &gguf_free);
    const std::string name =
        gguf_get_val_str(header.get(), gguf_find_key(header.get(), "general.architecture"));
    return gguf_get_val_u32(header.get(), gguf_find_key(header.get(), (name + "." + key).c_str()));
}

TEST(CliRouteTrace, TraceOfARunFitsTheModelAndReplays) {
    const ScratchDir dir;
    const std::string path = dir / "run.trace";
    const ChildResult result = run({"-n", "20", "-ub", "4", "--route-trace", path});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const telemetry::RouteTrace trace = read_trace(path);
    EXPECT_EQ(trace.layers, header_number("block_count"));
    EXPECT_EQ(trace.experts, header_number("expert_count"));
    const tools::TraceFacts facts = tools::trace_facts(trace);
    EXPECT_EQ(facts.cycle_slots, trace.layers * header_number("expert_used_count"));
    EXPECT_GE(facts.decoded_tokens, 19U) << "the last of 20 is drawn but not computed";
    EXPECT_LE(facts.decoded_tokens, 20U) << "a last ubatch of one token is one decoded alone";
    EXPECT_GE(facts.prefill_passes, 2U);
    EXPECT_EQ(trace.decisions[0].tokens.size(), 4U) << "one line a token";

    const ChildResult replayed = sluice({"replay", path});
    ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
    EXPECT_THAT(replayed.out, ContainsRegex("\n *1.00 +" + std::to_string(facts.cycle_slots)));
}

TEST(CliRouteTrace, InterruptedRunLeavesAWholeTrace) {
    const ScratchDir dir;
    const std::string path = dir / "run.trace";
    const Arguments endless = {"-n", "100000", "-c", "8192", "--repeat-penalty", "1", "--route-trace", path};
    const ChildResult result = run(endless, {.signal = SIGINT});
    expect_failed(result, "interrupted");
    EXPECT_GT(read_trace(path).decisions.size(), 0U);
    const ChildResult killed = run(endless, {.signal = SIGKILL});
    EXPECT_EQ(killed.signal, SIGKILL);
    EXPECT_GT(read_trace(path).decisions.size(), 0U);
}

TEST(CliRouteTrace, FullDiskEndsTheRunWithASentence) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "there is no /dev/full here";
    }
    const ChildResult result = run({"-n", "100000", "-c", "8192", "--route-trace", "/dev/full"});
    expect_failed(result, "cannot write the routing trace /dev/full: No space left on device");
}

TEST(CliRouteTrace, ALimitOnFileSizesLeavesAWholeTrace) {
    const ScratchDir dir;
    const std::string path = dir / "run.trace";
    const ChildResult result =
        run({"-n", "100000", "-c", "8192", "--route-trace", path}, {.limits = {{RLIMIT_FSIZE, 1500}}});
    expect_failed(result, "run.trace: File too large");
    EXPECT_GT(read_trace(path).decisions.size(), 0U) << "no part of a line is left";
}

TEST(CliRouteTrace, FileThatCannotBeWrittenIsRefusedBeforeLoading) {
    const ScratchDir dir;
    expect_refused(run({"--route-trace", dir / "missing/trace"}), failed, "missing/trace: No such file");
    expect_refused(run({"--route-trace", dir.path()}), failed, "Is a directory");
}

TEST(CliRouteTrace, TheModelIsNotOverwritten) {
    const std::string model = tiny_model("tiny-qwen3moe", "q4_K");
    const auto size = std::filesystem::file_size(model);
    expect_refused(run({"-m", model, "-p", "x", "--route-trace", model}), usage, "written over the model");
    EXPECT_EQ(std::filesystem::file_size(model), size);
}

TEST(CliRouteTrace, WithoutStreamedExpertsThereIsNothingToTrace) {
    const ScratchDir dir;
    expect_refused(sluice({"run", "--no-moe-stream", "--route-trace", dir / "trace"}), usage,
                   "--route-trace");
    expect_failed(run({"-m", tiny_model("tiny-dense"), "-p", "x", "--route-trace", dir / "trace"}),
                  "--route-trace needs experts that are streamed");
}

// -- sluice run --cache-policy
// -------------------------------------------------------------------------------------

TEST(CliCachePolicy, TextIsTheSameUnderEveryPolicy) {
    const std::string text = run({"-n", "30"}).out;
    EXPECT_GT(text.size(), 60U);
    for (const char *policy : {"next-use", "lru", "lfu"}) {
        const ChildResult result = run({"-n", "30", "--cache-policy", policy});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.out, text) << policy;
    }
}

TEST(CliCachePolicy, UnknownOnesAreUsageErrors) {
    expect_refused(run({"--cache-policy", "fifo"}), usage, "--cache-policy");
}

} // namespace
} // namespace sluice::test
