// What a user tells GCC's OpenMP runtime by variables, which it reads before any test could set them:
// programs are started anew with each.
#include "platform/compute_runtime.h"

#include "platform/affinity.h"
#include "platform/barrier_variables.h"
#include "platform/reader_thread.h"
#include "support/cli.h"

#include <filesystem>

namespace sluice::platform {
namespace {

using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

/// Runs `program` with variables set, without those that this program was given before its runtime began.
test::ChildResult with(const Arguments &variables, const std::string &program, const Arguments &arguments) {
    Arguments all{"-u", "GOMP_SPINCOUNT", "-u", "KMP_BLOCKTIME"};
    all.insert(all.end(), variables.begin(), variables.end());
    all.push_back(program);
    all.insert(all.end(), arguments.begin(), arguments.end());
    return test::run_child("/usr/bin/env", all);
}

test::ChildResult plan_with(const Arguments &variables, const Arguments &flags = {}) {
    Arguments arguments{"run", "--plan"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return with(variables, SLUICE_BINARY, arguments);
}

/// The line of a plan that begins with the flag.
std::string choice_of(const std::string &flag, const test::ChildResult &planned) {
    const size_t at = planned.out.find("  " + flag + " ");
    return at == std::string::npos ? "" : planned.out.substr(at, planned.out.find('\n', at) - at);
}

/// Runs a disabled test of this program with variables set.
void expect_passes_with(const std::string &variable, const std::string &test) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const auto result =
        with({variable}, self, {"--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_" + test});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 test from"));
}

TEST(BoundThreads, AreCountedAsIfTheFirstWereNot) {
    const std::string unbound = choice_of("--threads", plan_with({}));
    ASSERT_NE(unbound, "");
    for (const char *variable : {"OMP_PROC_BIND=true", "OMP_PROC_BIND=close", "OMP_PLACES=cores"}) {
        EXPECT_EQ(choice_of("--threads", plan_with({variable})), unbound) << variable;
    }
}

TEST(BoundThreads, AreAsManyAsThePlacesThatAreGivenThem) {
    if (affinity_at_start().size() < 2) {
        GTEST_SKIP() << "this process may run on one processor only";
    }
    const std::string last = std::to_string(affinity_at_start().back());
    const std::string threads = choice_of("--threads", plan_with({"GOMP_CPU_AFFINITY=" + last}));
    EXPECT_THAT(threads, HasSubstr("--threads 1 "));
    EXPECT_THAT(threads, HasSubstr("cores among the 1 of "));
}

TEST(BoundThreads, DISABLED_ReaderRunsWhereTheProcessMay) {
    std::vector<size_t> of_reader;
    auto reader = platform::start_reader_thread("bound-test", [&] { of_reader = affinity(); });
    ASSERT_TRUE(reader);
    reader->join();
    EXPECT_EQ(of_reader, affinity_at_start());
    EXPECT_LT(affinity().size(), affinity_at_start().size()) << "the first thread is bound";
}

TEST(BoundThreads, ReaderRunsWhereTheProcessMay) {
    if (affinity_at_start().size() < 2) {
        GTEST_SKIP() << "this process may run on one processor only";
    }
    expect_passes_with("OMP_PROC_BIND=true", "ReaderRunsWhereTheProcessMay");
}

TEST(ThreadLimit, DecidesHowManyComputeAndTheReasonSaysSo) {
    EXPECT_EQ(runtime_thread_limit(), std::nullopt);
    EXPECT_THAT(choice_of("--threads", plan_with({"OMP_THREAD_LIMIT=1"})),
                testing::AnyOf(HasSubstr("OMP_THREAD_LIMIT allows no more"), HasSubstr("of 1 processor")));
    EXPECT_THAT(plan_with({"OMP_THREAD_LIMIT=1"}, {"-t", "2"}).err,
                HasSubstr("of 2 compute threads only 1 will be there: OMP_THREAD_LIMIT"));
}

TEST(ThreadLimit, RunSaysWhatReallyComputes) {
    for (const auto &[variable, threads] : {std::pair("OMP_THREAD_LIMIT=1", "# threads: 1\n"),
                                            std::pair("OMP_NUM_THREADS=1", "# threads: 2\n")}) {
        const auto run = with({variable}, SLUICE_BINARY,
                              {"run", "-n", "2", "-t", "2", "--cache-mb", "8", "--csv", "/dev/stdout"});
        EXPECT_EQ(run.exit_code, 0) << run.err;
        EXPECT_THAT(run.out, HasSubstr(threads)) << variable;
    }
}

// -- how long threads spin
// -----------------------------------------------------------------------------------------

TEST(SpinCount, IsReadAsTheRuntimeReadsIt) {
    static_assert(spin_count("1000") == 1000);
    static_assert(spin_count(" 3 k ") == 3000);
    static_assert(spin_count("2G") == 2'000'000'000);
    static_assert(spin_count("0") == 0);
    static_assert(spin_count("infinite") == kSpinForEver);
    static_assert(spin_count("INFINITY") == kSpinForEver);
    static_assert(spin_count("99999999999999999999") == kSpinForEver);
    static_assert(spin_count("99999999t") == kSpinForEver);
    for (const char *nothing : {"", "  ", "abc", "k", "-1", "1.5", "10 x", "10kk"}) {
        EXPECT_EQ(spin_count(nothing), std::nullopt) << nothing;
    }
}

TEST(WaitPolicy, IsReadAsTheRuntimeReadsIt) {
    static_assert(spins_by_policy(" Active ") == true);
    static_assert(spins_by_policy("PASSIVE") == false);
    for (const char *nothing : {"", " ", "act", "actively", "0"}) {
        EXPECT_EQ(spins_by_policy(nothing), std::nullopt) << nothing;
    }
}

TEST(EndlessSpinning, IsWarnedOfInOneSentence) {
    for (const char *variable : {"GOMP_SPINCOUNT=infinite", "GOMP_SPINCOUNT=30g", "OMP_WAIT_POLICY=active"}) {
        const auto planned = plan_with({variable});
        EXPECT_EQ(planned.err_lines().size(), 1U) << planned.err;
        EXPECT_THAT(planned.err, HasSubstr(std::string("sluice: ") + variable + " lets compute threads"));
    }
}

TEST(EndlessSpinning, IsNotWhatOtherValuesMean) {
    for (const char *variable : {"GOMP_SPINCOUNT=", "GOMP_SPINCOUNT=abc", "OMP_WAIT_POLICY=",
                                 "OMP_WAIT_POLICY=never", "OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=5000"}) {
        EXPECT_EQ(plan_with({variable}).err, "") << variable;
    }
    EXPECT_EQ(plan_with({"GOMP_SPINCOUNT=10", "OMP_WAIT_POLICY=active"}).err, "") << "the count counts";
}

TEST(DynamicThreads, AreWarnedOf) {
    EXPECT_THAT(plan_with({"OMP_DYNAMIC=true"}).err, HasSubstr("OMP_DYNAMIC lets"));
}

} // namespace
} // namespace sluice::platform
