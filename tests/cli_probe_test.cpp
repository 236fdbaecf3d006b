// sluice probe as people use it.

#include "storage/device_probe.h"
#include "support/cli.h"
#include "support/temp_file.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace sluice::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

/// A directory to measure in, and a place of its own for results.
class CliProbe : public testing::Test {
protected:
    CliProbe() { ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1); }

    /// With a small temporary file: tests look at what is claimed, not at how fast it is.
    static ChildResult probe(Arguments arguments, const ChildOptions &options = {}) {
        arguments.insert(arguments.begin(), {"probe", "--temporary-mb", "16"});
        return sluice(arguments, options);
    }

    std::optional<storage::ProbeResult> kept() const {
        return storage::load_probe(dir_.path(), cache_ / "sluice");
    }

    ScratchDir dir_;
    ScratchDir cache_;
};

TEST_F(CliProbe, TellsHowToReadAndKeepsTheResult) {
    const ChildResult result = probe({dir_.path()});
    if (result.exit_code == 1) {
        expect_failed(result, "is unmeasured: ");
        EXPECT_FALSE(kept());
        GTEST_SKIP() << result.err;
    }
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, ContainsRegex("\n1 MiB +threads .*\n1 MiB +io_uring .*\n"
                                          "16 KiB +threads .*\n16 KiB +io_uring .*\n"));
    EXPECT_THAT(result.out, ContainsRegex("\nbest for slices of 1 MiB: (threads|io_uring), [0-9]+ at once: "
                                          "[0-9]+ MiB/s\n"));
    EXPECT_THAT(result.out,
                ContainsRegex("\nreading memory: [0-9.]+ GB/s on one core, [0-9.]+ GB/s on [0-9]+\n"));
    EXPECT_THAT(result.err, HasSubstr("saved in " + cache_.path()));
    ASSERT_TRUE(kept());
    EXPECT_TRUE(kept()->slices);
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(CliProbe, JsonIsAllThatIsOnStdoutAndNoCacheKeepsNothing) {
    const ChildResult result = probe({"--json", "--no-cache", dir_.path()});
    const auto parsed = storage::from_json(result.out);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(result.exit_code, parsed->slices || parsed->small ? 0 : 1) << result.err;
    EXPECT_EQ(parsed->device, storage::identify_device(dir_.path()).value());
    EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

TEST_F(CliProbe, StorageThatIsMemoryIsUnmeasured) {
    const auto device = storage::identify_device("/dev/shm");
    if (!device || !device->in_memory()) {
        GTEST_SKIP() << "/dev/shm is not in memory here";
    }
    const ScratchDir memory("/dev/shm");
    const ChildResult result = probe({memory.path()});
    expect_failed(result, "the storage of " + memory.path() + " is unmeasured: ");
    EXPECT_THAT(result.out, HasSubstr("best for slices of 1 MiB: unmeasured\n"));
    EXPECT_THAT(result.out, Not(ContainsRegex("[0-9] MiB/s")));
    EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

TEST_F(CliProbe, InterruptedProbeLeavesNoFileAndNoResult) {
    const ChildResult result = probe({dir_.path()}, {.signal = SIGINT, .signal_when = "probing "});
    expect_failed(result, "interrupted");
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
    EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

#ifdef __linux__
TEST_F(CliProbe, KilledProbeLeavesNoFile) {
    const ChildResult result = sluice({"probe", "--temporary-mb", "256", dir_.path()},
                                      {.signal = SIGKILL, .signal_when = "probing "});
    EXPECT_EQ(result.signal, SIGKILL);
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}
#endif

TEST_F(CliProbe, PathThatCannotBeProbedIsNamed) {
    expect_refused(probe({dir_ / "none"}), 1, "cannot examine " + (dir_ / "none") + ": No such file");
    expect_refused(probe({"/dev/null"}), 1, "/dev/null is neither a file nor a directory");
}

TEST_F(CliProbe, FullDiskIsOneSentence) {
    const rlim_t limit = 1 << 20;
    const ChildResult result = probe({dir_.path()}, {.limits = {{RLIMIT_FSIZE, limit}}});
    expect_failed(result, "cannot write a temporary file in " + dir_.path() + ": File too large");
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(CliProbe, ResultThatCannotBeKeptIsNoFailure) {
    ::setenv("XDG_CACHE_HOME", (dir_.write("file", "x") + "/below").c_str(), 1);
    const ChildResult result = probe({dir_ / "file"});
    if (result.exit_code == 0) {
        EXPECT_THAT(result.err, HasSubstr("sluice: the result is not saved: "));
    }
}

TEST_F(CliProbe, BadFlagsAreNamed) {
    expect_refused(sluice({"probe", "--bogus"}), 2, "--bogus");
    expect_refused(sluice({"probe", "--temporary-mb", "1"}), 2, "--temporary-mb");
    expect_refused(sluice({"probe", "a", "b"}), 2, "b");
}

} // namespace
} // namespace sluice::test
