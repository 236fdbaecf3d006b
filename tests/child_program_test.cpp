// Programs in processes of their own: what they write, how they end, being stopped.

#include "platform/child_program.h"

#include <chrono>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::platform {
namespace {

using testing::HasSubstr;

bool always() {
    return true;
}

Result<ProgramRun> shell(const std::string &script) {
    return run_program("/bin/sh", {"-c", script}, always);
}

TEST(ChildProgram, BothStreamsAndTheExitCodeComeBack) {
    const auto run = shell("echo out; echo err >&2; exit 3");
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->exit_code, 3);
    EXPECT_EQ(run->signal, 0);
    EXPECT_EQ(run->out, "out\n");
    EXPECT_EQ(run->err, "err\n");
}

TEST(ChildProgram, ArgumentsArriveAsTheyAreAndInputIsEmpty) {
    const auto run =
        run_program("/bin/sh", {"-c", "cat; printf '%s|' \"$@\"", "sh", "a b", "", "'$x"}, always);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->out, "a b||'$x|");
}

TEST(ChildProgram, AllOfTheOutputComesAndTheEndOfTheErrors) {
    const auto run =
        shell("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; "
              "echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; echo end >&2");
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->out.size(), 3000U * 41U);
    EXPECT_EQ(run->err.size(), size_t{64} << 10U);
    EXPECT_TRUE(run->err.ends_with("9\nend\n"));
}

TEST(ChildProgram, SignalIsTold) {
    const auto run = shell("kill -TERM $$");
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->exit_code, -1);
    EXPECT_EQ(run->signal, SIGTERM);
}

TEST(ChildProgram, IsKilledWhenItIsToStop) {
    const auto start = std::chrono::steady_clock::now();
    int asked = 0;
    const auto run = run_program("/bin/sh", {"-c", "exec sleep 60"}, [&asked] { return ++asked < 3; });
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, ErrorCode::Cancelled);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(ChildProgram, ThatIsNotThereIsNamed) {
    const auto run = run_program("/nowhere/program", {}, always);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, ErrorCode::Io);
    EXPECT_THAT(run.error().message, HasSubstr("/nowhere/program"));
}

TEST(ChildProgram, OwnProgramIsThisOne) {
    EXPECT_THAT(own_program(), HasSubstr("child_program_test"));
}

} // namespace
} // namespace sluice::platform
