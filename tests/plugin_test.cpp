// The plug-in in programs that know nothing of it: what they compute is what they compute without it, to the
// bit where they show it, from slices that were read meanwhile. The libraries and tools are stock llama.cpp's
// at the pinned tree (scripts/build-stock-tools.sh); what was not built is skipped.
#include "support/child_process.h"
#include "support/gate.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <thread>

namespace sluice::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

const std::string stock = SLUICE_STOCK_TOOLS;

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

using Words = std::vector<std::string>;

ChildResult run_with(Words variables, const Words &command) {
    variables.insert(variables.end(), command.begin(), command.end());
    return run_child("/usr/bin/env", variables);
}

/// A cache that holds a layer's slices for one token of each model here, and not all of most.
Words streaming(const Words &more = {}) {
    Words variables{std::string("GGML_BACKEND_PATH=") + SLUICE_PLUGIN, "SLUICE_CACHE_MB=13",
                    "SLUICE_SUMMARY=1"};
    variables.insert(variables.end(), more.begin(), more.end());
    return variables;
}

Words host(const std::string &mode, const Words &models) {
    Words command{SLUICE_PLUGIN_HOST, stock + "/libggml.so", stock + "/libllama.so", mode};
    command.insert(command.end(), models.begin(), models.end());
    return command;
}

/// What a program said was read of `model`, 0 if it did not say.
uint64_t bytes_read(const ChildResult &result, const std::string &model) {
    const std::regex summary("summary of [^:]*" + fs::path(model).filename().string() +
                             ": .* (\\d+) bytes read");
    std::smatch found;
    return std::regex_search(result.err, found, summary) ? std::stoull(found[1]) : 0;
}

/// Both runs succeed and say the same, and the second reads slices of `model` for it.
void expect_same_streamed(const Words &command, const std::string &model, const Words &more = {}) {
    const ChildResult alone = run_with({}, command);
    const ChildResult streamed = run_with(streaming(more), command);
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    ASSERT_EQ(streamed.exit_code, 0) << streamed.err;
    EXPECT_FALSE(alone.out.empty());
    EXPECT_EQ(alone.out, streamed.out);
    EXPECT_GT(bytes_read(streamed, model), 0U) << streamed.err;
    EXPECT_THAT(streamed.err, HasSubstr("sluice: streaming the experts of "));
}

class PluginInHost : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        if (!fs::exists(stock + "/libllama.so")) {
            GTEST_SKIP() << "scripts/build-stock-tools.sh --libraries was not run";
        }
    }
};

TEST_P(PluginInHost, ComputesTheBytesOfStock) {
    const std::string model = GetParam() == "embedded" ? embedded() : arch_model(GetParam());
    expect_same_streamed(host("none", {model}), model);
}

INSTANTIATE_TEST_SUITE_P(Models, PluginInHost,
                         testing::Values("embedded", "deepseek2-moe", "deepseek4-moe", "glm4moe-moe",
                                         "gpt-oss-moe", "grovemoe-moe", "lfm2moe-moe", "llama-moe",
                                         "llama4-moe", "olmoe-moe", "phimoe-moe", "qwen35moe-moe",
                                         "qwen3moe-moe", "qwen4exp-moe"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

class Plugin : public PluginInHost {};

TEST_F(Plugin, ReadsRowsWhenAsked) {
    expect_same_streamed(host("none", {embedded()}), embedded(), {"SLUICE_ROW_STREAM=on"});
}

TEST_F(Plugin, StreamsTwoModelsOfAProgram) {
    const std::string other = arch_model("qwen3moe-moe");
    expect_same_streamed(host("none", {embedded(), other}), embedded());
    const ChildResult both = run_with(streaming(), host("none", {embedded(), other}));
    EXPECT_GT(bytes_read(both, other), 0U) << both.err;
}

TEST_F(Plugin, StreamsTheOneModelThatIsNamed) {
    const std::string other = arch_model("qwen3moe-moe");
    const ChildResult one = run_with(streaming({"SLUICE_MODEL=" + other}), host("none", {embedded(), other}));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    EXPECT_EQ(bytes_read(one, embedded()), 0U);
    EXPECT_GT(bytes_read(one, other), 0U) << one.err;
}

TEST_F(Plugin, StreamsInTwoProgramsAtOnce) {
    std::jthread first([] { expect_same_streamed(host("none", {embedded()}), embedded()); });
    std::jthread second([] { expect_same_streamed(host("none", {embedded()}), embedded()); });
}

TEST_F(Plugin, LeavesModelsWithoutExpertsAlone) {
    const Words command = host("none", {arch_model("llama-dense")});
    const ChildResult alone = run_with({}, command);
    const ChildResult loaded = run_with(streaming(), command);
    ASSERT_EQ(loaded.exit_code, 0) << loaded.err;
    EXPECT_EQ(alone.out, loaded.out);
    EXPECT_THAT(loaded.err, Not(HasSubstr("streaming the experts")));
}

TEST_F(Plugin, SaysThatAMappedFileIsReadWhole) {
    expect_same_streamed(host("mmap", {embedded()}), embedded());
    const ChildResult mapped = run_with(streaming(), host("mmap", {embedded()}));
    EXPECT_THAT(mapped.err, HasSubstr("is mapped, so the program has read all of it; with --load-mode none"));
    const ChildResult read = run_with(streaming(), host("none", {embedded()}));
    EXPECT_THAT(read.err, Not(HasSubstr("is mapped")));
}

TEST_F(Plugin, SaysThatAWarmUpReadsEveryExpert) {
    expect_same_streamed(host("warm-up", {embedded()}), embedded());
    const ChildResult warm = run_with(streaming(), host("warm-up", {embedded()}));
    EXPECT_THAT(warm.err, HasSubstr("warms up with every expert"));
    const ChildResult cold = run_with(streaming(), host("none", {embedded()}));
    EXPECT_THAT(cold.err, Not(HasSubstr("warms up")));
}

/// The program goes on without it, and one sentence says why.
void expect_inert(const Words &variables, const std::string &sentence) {
    const Words command = host("none", {embedded()});
    const ChildResult alone = run_with({}, command);
    const ChildResult inert = run_with(streaming(variables), command);
    ASSERT_EQ(inert.exit_code, 0) << inert.err;
    EXPECT_EQ(alone.out, inert.out);
    EXPECT_THAT(inert.err, HasSubstr("sluice: nothing is streamed: " + sentence));
    EXPECT_EQ(bytes_read(inert, embedded()), 0U);
}

TEST_F(Plugin, IsInertWhereAVariableIsWrong) {
    expect_inert({"SLUICE_CACHE_MB=much"}, "SLUICE_CACHE_MB");
    expect_inert({"SLUICE_CASH_MB=1"}, "SLUICE_CASH_MB is no variable that Sluice knows");
    expect_inert({"SLUICE_SUMMARY=2"}, "SLUICE_SUMMARY: '2' is not 0 or 1");
    expect_inert({"SLUICE_MODEL=/nowhere.gguf"}, "there is no file /nowhere.gguf");
}

TEST_F(Plugin, IsInertWhereAskedForWhatOnlyOurProgramsDo) {
    expect_inert({"SLUICE_RAM_MB=1000"}, "SLUICE_RAM_MB needs a plan");
    expect_inert({"SLUICE_DENSE_WEIGHTS=locked"}, "SLUICE_DENSE_WEIGHTS is for Sluice's own loader");
    expect_inert({"SLUICE_N_EXPERT_USED=1"}, "SLUICE_N_EXPERT_USED is for Sluice's own loader");
}

TEST_F(Plugin, CanBeTurnedOff) {
    expect_inert({"SLUICE_MOE_STREAM=off"}, "SLUICE_MOE_STREAM is off");
}

TEST(PluginRefuses, AnotherVersionOfGgml) {
    const ChildResult other = run_with({"STRANGER_VERSION=0.24.9"}, {SLUICE_PLUGIN_STRANGER, SLUICE_PLUGIN});
    EXPECT_EQ(other.exit_code, 0);
    EXPECT_EQ(other.out, "refused\n");
    EXPECT_EQ(other.err, std::string("sluice: nothing is streamed: this plug-in was built for ggml ") +
                             SLUICE_GGML_VERSION + ", and this program has ggml 0.24.9\n");
}

TEST(PluginRefuses, AProgramWithoutTheRestOfGgml) {
    const ChildResult other = run_with({std::string("STRANGER_VERSION=") + SLUICE_GGML_VERSION},
                                       {SLUICE_PLUGIN_STRANGER, SLUICE_PLUGIN});
    EXPECT_EQ(other.exit_code, 0);
    EXPECT_EQ(other.out, "refused\n");
    EXPECT_THAT(other.err, HasSubstr("this program has no registry of backends"));
}

class PluginInTool : public testing::Test {
protected:
    void SetUp() override {
        if (!fs::exists(stock + "/llama-perplexity")) {
            GTEST_SKIP() << "scripts/build-stock-tools.sh was not run";
        }
    }

    static Words tool(const std::string &name, const Words &more) {
        Words command{stock + "/" + name, "-m", embedded(), "-t", "2", "-lm", "none"};
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }
};

TEST_F(PluginInTool, CompletionSaysTheSame) {
    expect_same_streamed(tool("llama-completion", {"--no-repack", "-no-cnv", "--temp", "0", "-n", "32",
                                                   "--simple-io", "-p", "Once upon a time"}),
                         embedded());
}

TEST_F(PluginInTool, PerplexityIsTheSame) {
    const Words command = tool("llama-perplexity", {"--no-repack", "-c", "64", "--chunks", "2", "-f",
                                                    std::string(SLUICE_SOURCES) + "/README.md"});
    const std::regex final_line("Final estimate: [^\n]*");
    const auto estimate = [&](const ChildResult &result) {
        std::smatch found;
        const std::string said = result.out + result.err;
        return std::regex_search(said, found, final_line) ? found.str() : "none: " + said;
    };
    const ChildResult streamed = run_with(streaming(), command);
    EXPECT_EQ(estimate(run_with({}, command)), estimate(streamed));
    EXPECT_THAT(estimate(streamed), HasSubstr("PPL = "));
    EXPECT_GT(bytes_read(streamed, embedded()), 0U) << streamed.err;
}

TEST_F(PluginInTool, BenchAndChatStream) {
    const ChildResult bench = run_with(streaming(), tool("llama-bench", {"-p", "16", "-n", "4", "-r", "1"}));
    EXPECT_EQ(bench.exit_code, 0) << bench.err;
    EXPECT_GT(bytes_read(bench, embedded()), 0U) << bench.err;
    const ChildResult chat = run_with(
        streaming(), tool("llama-cli", {"-st", "--temp", "0", "-n", "8", "--simple-io", "-p", "Once upon"}));
    EXPECT_EQ(chat.exit_code, 0) << chat.err;
    EXPECT_GT(bytes_read(chat, embedded()), 0U) << chat.err;
}

/// Starts the server that its arguments are, asks it for a few tokens when it answers, and ends it.
constexpr const char *kAskServer = R"(
port=$((20000 + $$ % 20000))
"$@" --host 127.0.0.1 --port $port >/dev/null &
server=$!
ask() {
    exec 3<>/dev/tcp/127.0.0.1/$port || return 1
    printf '%s /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" ${#3} "$3" >&3
    cat <&3
}
for ((i = 0; i < 300; ++i)); do
    ask GET health '' 2>/dev/null | grep -q '"ok"' && break
    sleep 0.1
done
ask POST completion '{"prompt":[5,9,12,700],"n_predict":24,"temperature":0,"return_tokens":true}' |
    grep -o '"tokens":\[[^]]*\]'
kill -INT $server
wait $server
)";

TEST_F(PluginInTool, ServerDrawsTheSameTokens) {
    Words command{"bash", "-c", kAskServer, "ask"};
    for (const std::string &word : tool("llama-server", {"--no-repack", "-c", "256", "-np", "1"})) {
        command.push_back(word);
    }
    expect_same_streamed(command, embedded());
}

} // namespace
} // namespace sluice::test
