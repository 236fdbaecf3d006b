// The sluice command as people use it: what goes to stdout, what to stderr, how it ends.

#include "support/cli.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include "gguf.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

namespace sluice::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

const std::string story = "There was once a poor woodcutter who had";

/// `sluice run` with one thread: small models gain nothing from more.
ChildResult run(Arguments arguments, const ChildOptions &options = {}) {
    arguments.insert(arguments.begin(), {"run", "-t", "1"});
    return sluice(arguments, options);
}

/// What is on stdout after a run that must succeed.
std::string text_of(const Arguments &arguments, const ChildOptions &options = {}) {
    const ChildResult result = run(arguments, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
}

// -- a plain run
// --------------------------------------------------------------------------------------------------

TEST(CliRun, TextGoesToStdoutAndNumbersToStderr) {
    const ChildResult result = run({"--moe-stream", "--cache-mb", "8", "-n", "20", "--lookahead", "off",
                                    "--no-hot-set", "--io-threads", "4"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith(story));
    EXPECT_GT(result.out.size(), story.size() + 1);
    EXPECT_EQ(result.out.back(), '\n');
    EXPECT_THAT(result.out, Not(HasSubstr("tokens/s")));

    const std::vector<std::string> lines = result.err_lines();
    ASSERT_EQ(lines.size(), 8U) << result.err;
    EXPECT_THAT(lines[0], testing::StartsWith("plan: sluice run -m "));
    EXPECT_THAT(lines[1], ContainsRegex("^mode: streaming experts \\(asked for by --moe-stream\\): [0-9.]+ "
                                        "MiB stay on storage, [0-9.]+ MiB of dense weights are in memory"));
    EXPECT_THAT(lines[2], ContainsRegex("^generation: 20 tokens in [0-9.]+ s, [0-9.]+ tokens/s$"));
    EXPECT_THAT(lines[3], ContainsRegex("^prefill: [0-9]+ tokens in [0-9.]+ s, [0-9.]+ tokens/s$"));
    EXPECT_THAT(lines[4], ContainsRegex("^moe-stream: [0-9.]+ MiB read in all, [0-9.]+ [KM]iB per generated "
                                        "token"));
    EXPECT_THAT(lines[5], ContainsRegex("^moe-cache: [0-9.]+ MiB in [0-9]+ slots, [0-9.]+ % hits while "
                                        "generating, [0-9]+ evictions"));
    EXPECT_THAT(lines[6], ContainsRegex("^memory: peak [0-9.]+ MiB for a model of 31.7 MiB"));
    EXPECT_THAT(lines[7], ContainsRegex("^compute: [0-9.]+ % computing, [0-9.]+ % waiting for experts, "));
}

TEST(CliRun, PipedOutputIsPlainText) {
    for (const char *mode : {"--moe-stream", "--no-moe-stream"}) {
        const ChildResult result = run({mode, "-n", "5"});
        for (const std::string &text : {result.out, result.err}) {
            EXPECT_THAT(text, Not(HasSubstr("\r")));
            EXPECT_THAT(text, Not(HasSubstr("\x1b")));
        }
    }
}

TEST(CliRun, ResidentRunSaysWhyAndHasNoStreamingNumbers) {
    const ChildResult result = run({"--no-moe-stream", "-n", "5"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr("\nmode: resident, because asked for by --no-moe-stream\n"));
    EXPECT_THAT(result.err, Not(HasSubstr("moe-cache")));
}

TEST(CliRun, NoTokensAskedForPrintsThePromptAlone) {
    EXPECT_EQ(text_of({"--raw", "-p", "Once", "-n", "0"}), "Once\n");
}

TEST(CliRun, ContextThatFillsUpIsSaid) {
    const ChildResult result = run({"-n", "-1", "-c", "64", "--temp", "0", "--repeat-penalty", "1"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("sluice: the text ends because the context of"));
}

TEST(CliRun, DenseModelUnderMoeStreamSaysThatThereIsNothingToStream) {
    const ChildResult result = run({"-m", tiny_model("tiny-dense"), "--moe-stream", "-p", "x"});
    EXPECT_THAT(result.err,
                testing::HasSubstr("\nmode: streaming (asked for by --moe-stream), but the model has no "
                                   "routed experts: all of it is in memory\n"));
    EXPECT_EQ(result.out, "");
    expect_failed(result, "has no vocabulary, so it can't read or write text"); // made models have none
}

TEST(CliRun, HelpAndVersionGoToStdout) {
    for (const Arguments &arguments : {Arguments{"--help"}, Arguments{"-h"}, Arguments{"run", "--help"},
                                       Arguments{"make-model", "--help"}}) {
        const ChildResult result = sluice(arguments);
        EXPECT_EQ(result.exit_code, 0);
        EXPECT_THAT(result.out, HasSubstr("Usage: sluice"));
        EXPECT_EQ(result.err, "");
    }
    const ChildResult version = sluice({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_THAT(version.out, ContainsRegex("^sluice [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// -- the same text, however it is computed
// ------------------------------------------------------------------------

TEST(CliText, GreedyTextDependsOnNothingButTheModelAndThePrompt) {
    const Arguments streamed = {"--moe-stream", "--temp", "0", "-s", "1", "-n", "40", "--cache-mb"};
    const auto with = [&streamed](const Arguments &more) {
        Arguments all = streamed;
        all.insert(all.end(), more.begin(), more.end());
        return text_of(all);
    };
    const std::string text = with({"8"});
    EXPECT_GT(text.size(), story.size() + 40);
    EXPECT_EQ(with({"8"}), text) << "the same again";
    EXPECT_EQ(with({"1"}), text) << "a cache below one token's working set";
    EXPECT_EQ(with({"64", "--no-repack"}), with({"8", "--no-repack"})) << "everything cached";
    // Then experts have the layout that they have in memory, and the last bits of its kernels.
    EXPECT_EQ(with({"64"}), text_of({"--no-moe-stream", "--temp", "0", "-s", "1", "-n", "40"}));
    EXPECT_EQ(with({"8", "--no-direct"}), text);
    EXPECT_EQ(with({"8", "--io-threads", "1"}), text);
    const ChildResult two_threads =
        sluice({"run", "-t", "2", "--moe-stream", "--cache-mb", "8", "--temp", "0", "-s", "1", "-n", "40"});
    EXPECT_EQ(two_threads.out, text);
}

TEST(CliText, StreamedTextIsTheResidentText) {
    for (const char *ubatch : {"512", "3"}) { // kernels add up in another order for other batches
        SCOPED_TRACE(ubatch);
        const auto with = [ubatch](const Arguments &mode) {
            Arguments all = {"--no-repack", "--temp", "0", "-n", "40", "-ub", ubatch};
            all.insert(all.end(), mode.begin(), mode.end());
            return text_of(all);
        };
        EXPECT_EQ(with({"--moe-stream", "--cache-mb", "2"}), with({"--no-moe-stream"}));
    }
}

TEST(CliText, SeedDecidesTheSampledText) {
    const auto sampled = [](const std::string &seed, const std::string &cache) {
        return text_of({"--moe-stream", "--cache-mb", cache, "-n", "40", "-s", seed});
    };
    const std::string text = sampled("42", "8");
    EXPECT_EQ(sampled("42", "2"), text);
    EXPECT_NE(sampled("43", "8"), text);
}

// -- prompts
// ------------------------------------------------------------------------------------------------------

TEST(CliPrompt, FileIsThePromptWithoutTheNewlineThatEndsIt) {
    const ScratchDir dir;
    const Arguments greedy = {"--temp", "0", "-n", "12"};
    const auto with = [&greedy](Arguments first) {
        first.insert(first.end(), greedy.begin(), greedy.end());
        return text_of(first);
    };
    const std::string text = with({"-p", "The king said\nto his daughter"});
    EXPECT_THAT(text, StartsWith("The king said\nto his daughter"));
    EXPECT_EQ(with({"-f", dir.write("prompt.txt", "The king said\nto his daughter")}), text);
    EXPECT_EQ(with({"-f", dir.write("ended.txt", "The king said\nto his daughter\n")}), text);
}

TEST(CliPrompt, LongFileIsPrefilledInSeveralUbatches) {
    const ScratchDir dir;
    std::string prompt;
    for (int i = 0; i < 40; ++i) {
        prompt += "The king had a daughter. ";
    }
    const std::string text =
        text_of({"-f", dir.write("long.txt", prompt), "-ub", "32", "-n", "3", "--moe-stream"});
    EXPECT_THAT(text, StartsWith(prompt));
}

TEST(CliPrompt, PromptLongerThanTheContextIsRefusedWithBothNumbers) {
    std::string prompt;
    for (int i = 0; i < 50; ++i) {
        prompt += story + " a daughter. ";
    }
    const ChildResult result = run({"-p", prompt, "-c", "256"});
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err_lines().back(),
                ContainsRegex("^sluice: .*[0-9]+ tokens do not fit the context of 256"));
}

// -- chat: the embedded model tells stories, so it is given a template
// ---------------------------------------------------------------

std::string chat_model() {
    static const ScratchDir dir;
    static const std::string path = [] {
        const std::unique_ptr<gguf_context, decltype(&gguf_free)> header(
            gguf_init_from_file(embedded().c_str(), {/*no_alloc=*/true, /*ctx=*/nullptr}), &gguf_free);
        std::ifstream weights(embedded(), std::ios::binary);
        weights.seekg(static_cast<std::streamoff>(gguf_get_data_offset(header.get())));
        gguf_set_val_str(header.get(), "tokenizer.chat_template",
                         "{% for message in messages %}<{{ message.role }}> {{ message.content }}\n"
                         "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
        std::vector<char> bytes(gguf_get_meta_size(header.get()));
        gguf_get_meta_data(header.get(), bytes.data());
        const std::string to = dir / "chat.gguf";
        std::ofstream file(to, std::ios::binary);
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())) << weights.rdbuf();
        EXPECT_TRUE(file.flush());
        return to;
    }();
    return path;
}

TEST(CliChat, ModelWithATemplateAnswersWithoutRepeatingThePrompt) {
    const Arguments greedy = {"-m", chat_model(), "-p", "Tell me a story", "--temp", "0", "-n", "10"};
    const std::string by_default = text_of(greedy);
    Arguments asked = greedy;
    asked.emplace_back("--chat");
    Arguments raw = greedy;
    raw.emplace_back("--raw");
    EXPECT_EQ(text_of(asked), by_default);
    EXPECT_THAT(by_default, Not(HasSubstr("Tell me a story")));
    EXPECT_THAT(text_of(raw), StartsWith("Tell me a story"));
}

TEST(CliChat, SystemPromptChangesTheAnswer) {
    const Arguments greedy = {"-m", chat_model(), "-p", "Tell me a story", "--temp", "0", "-n", "10"};
    Arguments told = greedy;
    told.insert(told.end(), {"-sys", "The queen slept in the castle"});
    EXPECT_NE(text_of(told), text_of(greedy));
}

TEST(CliChat, ConversationTakesLinesFromStdinUntilItEnds) {
    const Arguments chat = {"-m", chat_model(), "--temp", "0", "-n", "10"};
    Arguments once = chat;
    once.insert(once.end(), {"-p", "Tell me a story"});
    const std::string first = text_of(once);
    const std::string both = text_of(chat, {.input = "Tell me a story\n\nAnd then?\n"});
    EXPECT_THAT(both, StartsWith(first));
    EXPECT_GT(both.size(), first.size());
    const ChildResult nothing_said = run(chat);
    EXPECT_EQ(nothing_said.exit_code, 0);
    EXPECT_EQ(nothing_said.out, "");
}

// -- being interrupted
// -------------------------------------------------------------------------------------------

// Greedy and unpenalised, the model goes round in circles until the context ends, which is far away.
const Arguments endless = {"--moe-stream",     "--cache-mb", "8", "-n", "100000", "-c", "8192", "--temp", "0",
                           "--repeat-penalty", "1"};

TEST(CliInterrupt, CtrlCEndsTheAnswerAndPrintsTheSummary) {
    const ChildResult result = run(endless, {.signal = SIGINT});
    EXPECT_THAT(result.out, StartsWith(story));
    EXPECT_EQ(result.out.back(), '\n');
    expect_failed(result, "interrupted");
    EXPECT_THAT(result.err, ContainsRegex("\ngeneration: [0-9]+ tokens in"));
    EXPECT_THAT(result.err, HasSubstr("\nmemory: peak "));
}

TEST(CliInterrupt, CtrlCWhileAnsweringGoesOnWithTheConversation) {
    Arguments chat = endless;
    chat.insert(chat.end(), {"-m", chat_model()});
    const ChildResult result = run(chat, {.input = "Tell me a story\n", .signal = SIGINT});
    EXPECT_EQ(result.exit_code, 0) << result.err; // stdin ended, as conversations do
    EXPECT_THAT(result.err, HasSubstr("\ngeneration: "));
}

TEST(CliInterrupt, TwiceEndsTheProcessWhateverItWaitsFor) {
    const ChildResult result =
        run({"-m", chat_model()},
            {.keep_stdin_open = true, .signal = SIGINT, .signal_when = "mode: ", .signal_again = true});
    EXPECT_EQ(result.signal, SIGINT);
}

// -- stdout that can't take the text
// ---------------------------------------------------------------------------

TEST(CliStdout, FullDiskEndsTheRun) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "there is no /dev/full here";
    }
    const ChildResult result = run(endless, {.stdout_file = "/dev/full"});
    expect_failed(result, "cannot write to standard output: No space left on device");
    EXPECT_THAT(result.err, ContainsRegex("\ngeneration: 1 tokens"));
    expect_failed(sluice({"--version"}, {.stdout_file = "/dev/full"}), "standard output");
}

TEST(CliStdout, ReaderThatGoesAwayEndsTheRun) {
    const ChildResult result = run(endless, {.hang_up_after = 1});
    expect_failed(result, "cannot write to standard output: Broken pipe");
}

TEST(CliStdout, ClosedFromTheStartEndsTheRun) {
    expect_failed(run(endless, {.close_stdout = true}), "cannot write to standard output: Bad file");
}

} // namespace
} // namespace sluice::test
