// `sluice serve` and `sluice chat` as commands: what they refuse, what they plan, how they end. What the
// server answers is tested through clients (tests/clients).

#include "support/cli.h"

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

} // namespace
} // namespace sluice::test
