// `sluice serve` and `sluice chat` as commands: what they refuse, what they plan, how they end. What the
// server answers is tested through clients (tests/clients).

#include "support/altered_model.h"
#include "support/cli.h"
#include "support/temp_file.h"

#include <string>
#include <vector>

namespace sluice::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int usage = 2;
constexpr int failed = 1;

TEST(Serve, RefusesAnOptionThatNeitherKnows) {
    expect_refused(sluice({"serve", "--no-such-thing"}), usage, "no option '--no-such-thing'");
    expect_refused(sluice({"chat", "--no-such-thing"}), usage, "no option '--no-such-thing'");
}

TEST(Serve, RefusesAMissingValueOfEitherKind) {
    expect_refused(sluice({"serve", "-c"}), usage, "-c needs a value");
    expect_refused(sluice({"serve", "--cache-mb"}), usage, "--cache-mb needs a value");
}

TEST(Serve, RefusesAValueThatIsNone) {
    expect_refused(sluice({"serve", "--cache-mb", "many"}), usage, "--cache-mb: 'many'");
}

TEST(Serve, LetsNoOtherMachineInWithoutAKey) {
    expect_refused(sluice({"serve", "--host", "0.0.0.0"}), usage, "needs --api-key");
}

TEST(Serve, SaysThatThereIsNoSuchModel) {
    expect_refused(sluice({"serve", "-m", "/nowhere.gguf"}), failed, "/nowhere.gguf");
}

TEST(Serve, TakesAValueThatLooksLikeAnotherOption) {
    const ChildResult result = sluice({"serve", "--plan", "--alias", "--ram-mb"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Serve, PlansWithWhatTheServerWillHold) {
    const ChildResult plain = sluice({"serve", "--plan", "--moe-stream", "-c", "512", "-np", "1"});
    ASSERT_EQ(plain.exit_code, 0) << plain.err;
    EXPECT_THAT(plain.out, HasSubstr("context (KV cache)             2.0 MiB"));
    EXPECT_THAT(plain.out, Not(HasSubstr("prompt cache")));
    const ChildResult more = sluice(
        {"serve", "--plan", "--moe-stream", "-c", "512", "-np", "2", "-ctk", "q8_0", "--cache-ram", "100"});
    ASSERT_EQ(more.exit_code, 0) << more.err;
    EXPECT_THAT(more.out, HasSubstr("context (KV cache)             1.5 MiB"));
    EXPECT_THAT(more.out, HasSubstr("prompt cache                 100.0 MiB"));
}

TEST(Serve, CountsADraftModel) {
    const ChildResult result = sluice({"serve", "--plan", "--moe-stream", "-md", embedded()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("draft model"));
}

TEST(Serve, FailsWhereTheLeastDoesNotFit) {
    const ChildResult result =
        sluice({"serve", "--plan", "--moe-stream", "--ram-mb", "64", "--cache-ram", "100"});
    EXPECT_EQ(result.exit_code, failed);
    EXPECT_THAT(result.err, HasSubstr("64 MiB are allowed"));
}

TEST(Serve, RefusesAModelWithoutAVocabulary) {
    const ScratchDir dir;
    ASSERT_EQ(sluice({"make-model", "--like", "tiny-qwen3moe", "-o", dir / "model.gguf"}).exit_code, 0);
    const ChildResult result = sluice({"serve", "-m", dir / "model.gguf", "--port", "0", "--moe-stream"});
    EXPECT_EQ(result.exit_code, failed);
    EXPECT_THAT(result.err, HasSubstr("has no vocabulary"));
}

TEST(Chat, AnswersLinesOfAPipeAndLeavesAtItsEnd) {
    ChildOptions options;
    options.input = "Hello\nAnd then?\n";
    const ChildResult result =
        sluice({"chat", "--moe-stream", "--cache-mb", "8", "--temp", "0", "-n", "4", "-t", "1"}, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("> Hello"));
    EXPECT_THAT(result.out, HasSubstr("> And then?"));
}

TEST(Chat, ReadsAPromptFromStandardInput) {
    ChildOptions options;
    options.input = "Once upon a time\n";
    const ChildResult result =
        sluice({"chat", "-f", "-", "-st", "--temp", "0", "-n", "4", "-t", "1"}, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("> Once upon a time"));
}

TEST(Chat, SaysThatTheContextIsLongerThanTrainedFor) {
    const ChildResult result = sluice({"chat", "-p", "x", "-st", "-n", "1", "-c", "2048", "-t", "1"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("2048 tokens is more than the 512"));
}

/// `sluice chat` with few greedy tokens, these words more, and these lines typed.
ChildResult chat(std::vector<std::string> words, const std::string &lines) {
    words.insert(words.begin(),
                 {"chat", "--moe-stream", "--cache-mb", "8", "--temp", "0", "-n", "4", "-t", "1"});
    ChildOptions options;
    options.input = lines;
    return sluice(words, options);
}

TEST(Chat, SaysThatATurnDoesNotFitAndGoesOn) {
    std::string turn;
    for (int i = 0; i < 600; ++i) {
        turn += "a ";
    }
    const ChildResult result = chat({"-c", "256"}, turn + "\n/clear\nAnd now?\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out + result.err, HasSubstr("exceeds the available context size"));
    const size_t question = result.out.find("> And now?");
    ASSERT_NE(question, std::string::npos) << result.out;
    EXPECT_GT(result.out.size(), question + 20) << "it was answered";
}

TEST(Chat, SaysThatATemplateDoesNotParseAndTakesAnother) {
    const ScratchDir dir;
    AlteredModel model(embedded());
    model.set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endif %}");
    model.write(dir / "model.gguf");
    const ChildResult refused = chat({"-m", dir / "model.gguf"}, "Hello\n");
    EXPECT_EQ(refused.exit_code, failed) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("template"));
    const ChildResult told = chat({"-m", dir / "model.gguf", "--chat-template", "chatml"}, "Hello\n");
    EXPECT_EQ(told.exit_code, 0) << told.err;
}

TEST(Chat, SaysThatTheModelComputesNoNumbers) {
    const ScratchDir dir;
    AlteredModel model(embedded());
    model.spoil("blk.3.ffn_gate_inp.weight");
    model.write(dir / "model.gguf");
    const ChildResult result = chat({"-m", dir / "model.gguf", "-st", "-p", "Hello"}, "");
    EXPECT_THAT(result.err, HasSubstr("no number (NaN)"));
}

} // namespace
} // namespace sluice::test
