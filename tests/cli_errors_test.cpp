// The sluice command when it can't do what it is told: one sentence, an exit code, no text that looks whole.

#include "support/cli.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace sluice::test {
namespace {

using testing::HasSubstr;

using Arguments = std::vector<std::string>;

constexpr int failed = 1;
constexpr int usage = 2;

ChildResult run(Arguments arguments, const ChildOptions &options = {}) {
    arguments.insert(arguments.begin(), {"run", "-t", "1", "-n", "2"});
    return sluice(arguments, options);
}

/// Tries `arguments` with and without streaming: the answer is the same.
void expect_refused_in_both_modes(const Arguments &arguments, int exit_code, const std::string &part) {
    for (const char *mode : {"--moe-stream", "--no-moe-stream"}) {
        SCOPED_TRACE(mode);
        Arguments all = arguments;
        all.emplace_back(mode);
        expect_refused(run(all), exit_code, part);
    }
}

bool is_root() {
    return ::geteuid() == 0;
}

// -- flags
// --------------------------------------------------------------------------------------------------------

struct BadFlag {
    Arguments arguments;
    std::string says;
};

TEST(CliUsage, BadFlagsAreNamed) {
    const std::vector<BadFlag> all = {
        {{"--bogus"}, "--bogus"},
        {{"extra"}, "extra"},
        {{"--cache-mb", "0"}, "--cache-mb: '0' is neither"},
        {{"--cache-mb", "-5"}, "--cache-mb: '-5' is neither"},
        {{"--cache-mb", "1.5"}, "--cache-mb: '1.5' is neither a whole number of MiB above 0 nor 'auto'"},
        {{"--io-engine", "x"}, "--io-engine: x not in {auto,threads,uring}"},
        {{"--io-engine", "1"}, "--io-engine: 1 not in"},
        {{"--dense-weights", "3"}, "--dense-weights: 3 not in"},
        {{"--io-threads", "4", "--io-engine", "uring"}, "whose reads in flight are --io-depth"},
        {{"--io-depth", "4", "--io-engine", "threads"}, "whose number is --io-threads"},
        {{"--io-threads", "4", "--io-depth", "4"}, "only one of them can be meant"},
        {{"--raw", "-sys", "Be brief."}, "--system-prompt"},
        {{"--cache-mb", "12abc"}, "--cache-mb: '12abc' is neither"},
        {{"--cache-mb", "99999999999999999999"}, "--cache-mb: '99999999999999999999' is neither"},
        {{"--cache-mb", ""}, "--cache-mb"},
        {{"--cache-mb"}, "--cache-mb"},
        {{"-t", "-1"}, "--threads"},
        {{"-t", "x"}, "--threads"},
        {{"--io-threads", "0"}, "--io-threads"},
        {{"--io-threads", "65"}, "--io-threads"},
        {{"-ub", "0"}, "--ubatch-size"},
        {{"-c", "-1"}, "--ctx-size"},
        {{"-c", "99999999999"}, "--ctx-size"},
        {{"--temp", "warm"}, "--temp"},
        {{"--temp", "nan"}, "--temp"},
        {{"--top-p", "inf"}, "--top-p"},
        {{"--top-k", "1.5"}, "--top-k"},
        {{"--repeat-penalty", "0"}, "--repeat-penalty"},
        {{"-s", "-1"}, "--seed"},
        {{"--moe-stream", "--no-moe-stream"}, "--no-moe-stream"},
        {{"--chat", "--raw"}, "--raw"},
        {{"-p", "x", "-f", "y"}, "--file"},
        {{"-p"}, "--prompt"},
    };
    for (const BadFlag &bad : all) {
        SCOPED_TRACE(testing::PrintToString(bad.arguments));
        expect_refused(run(bad.arguments), usage, bad.says);
    }
    for (const char *number : {"x", "1.5", "12abc", "99999999999"}) {
        SCOPED_TRACE(number);
        expect_refused(sluice({"run", "-n", number}), usage, "--predict");
    }
}

TEST(CliUsage, AndroidsMemoryForDenseWeightsIsAUsageErrorElsewhere) {
#ifdef __ANDROID__
    GTEST_SKIP() << "this is Android";
#endif
    expect_refused_in_both_modes({"--dense-weights", "ahwb"}, usage,
                                 "--dense-weights ahwb needs Android's AHardwareBuffer");
    expect_refused(run({"--dense-weights", "ahwb", "--plan"}), usage, "Android's AHardwareBuffer");
}

TEST(CliUsage, CommandMustBeOneThatThereIs) {
    expect_refused(sluice({}), usage, "A subcommand is required");
    expect_refused(sluice({"walk"}), usage, "there is no command 'walk'");
    expect_refused(sluice({""}), usage, "there is no command ''");
}

TEST(CliUsage, WhatIsGoneSaysWhatDoesItsWork) {
    expect_refused(run({"--repack-experts"}), usage,
                   "--repack-experts is gone: where every expert stays in memory, experts are repacked");
    expect_refused(sluice({"probe", "x.gguf"}), usage,
                   "'probe' is gone: a run finds out by itself how to read");
}

// -- prompts
// ------------------------------------------------------------------------------------------------------

TEST(CliPromptError, ThereMustBeOne) {
    const ScratchDir dir;
    expect_refused(run({"-m", embedded()}), usage, "there is no prompt; give one with -p or -f");
    expect_refused(run({"-p", ""}), usage, "the prompt is empty");
    expect_refused(run({"-f", dir.write("empty.txt", "")}), usage, "empty.txt is empty");
    expect_refused(run({"-f", dir.write("newline.txt", "\n")}), usage, "newline.txt is empty");
}

TEST(CliPromptError, FileThatCannotBeReadIsNamed) {
    const ScratchDir dir;
    expect_refused(run({"-f", dir / "none.txt"}), failed, "none.txt: No such file or directory");
    expect_refused(run({"-f", dir.path()}), failed, dir.path() + ": Is a directory");
}

TEST(CliPromptError, ChatNeedsATemplate) {
    expect_refused(run({"--chat", "-p", "x"}), failed, "has no chat template, so --chat is not possible");
}

TEST(CliPromptError, SystemPromptNeedsATemplate) {
    expect_refused(run({"-sys", "Be brief.", "-p", "x"}), failed,
                   "has no chat template, so --system-prompt is not possible");
}

TEST(CliPromptError, ModelWithoutAVocabularyLeavesNoText) {
    const ChildResult result = run({"-m", tiny_model("tiny-qwen3moe"), "-p", "x"});
    EXPECT_EQ(result.out, "");
    expect_failed(result, "has no vocabulary");
}

// -- model files
// --------------------------------------------------------------------------------------------------

TEST(CliModelError, FileThatIsNoModelIsNamed) {
    const ScratchDir dir;
    const auto refused = [](const std::string &path, const std::string &why) {
        SCOPED_TRACE(path);
        expect_refused_in_both_modes({"-m", path, "-p", "x"}, failed, path);
        expect_refused_in_both_modes({"-m", path, "-p", "x"}, failed, why);
    };
    refused(dir / "none.gguf", "No such file");
    refused("", "No such file"); // an unset variable must not mean the embedded model
    refused(dir.path(), "is a directory");
    refused(dir.write("text.gguf", "Once upon a time there was a model."), "is not a GGUF file");
    refused(dir.write("empty.gguf", ""), "is not a GGUF file");
}

TEST(CliModelError, UnreadableFileIsNamed) {
    if (is_root()) {
        GTEST_SKIP() << "root may read every file";
    }
    const ScratchDir dir;
    const std::string path = dir.write("secret.gguf", "GGUF");
    std::filesystem::permissions(path, std::filesystem::perms::none);
    expect_refused_in_both_modes({"-m", path, "-p", "x"}, failed, path + ": Permission denied");
}

TEST(CliModelError, TruncatedFileIsNamedHoweverMuchIsMissing) {
    const ScratchDir dir;
    std::ifstream file(embedded(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_GT(whole.size(), 1000000U);
    for (const size_t length : {size_t{3}, size_t{4}, size_t{24}, size_t{100}, size_t{5000}, size_t{200000},
                                whole.size() / 2, whole.size() - 1}) {
        SCOPED_TRACE(length);
        const std::string path = dir.write("cut.gguf", std::string_view(whole).substr(0, length));
        expect_refused_in_both_modes({"-m", path, "-p", "x"}, failed, path);
    }
}

TEST(CliModelError, MissingAndWrongShardsAreNamed) {
    const ScratchDir dir;
    const ChildResult made =
        sluice({"make-model", "--like", "tiny-qwen3moe", "--shards", "3", "-o", dir / "m.gguf"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::string first = dir / "m-00001-of-00003.gguf";
    EXPECT_EQ(made.out, first + "\n");
    const std::string second = dir / "m-00002-of-00003.gguf";
    const std::string third = dir / "m-00003-of-00003.gguf";

    expect_refused_in_both_modes({"-m", second, "-p", "x"}, failed, "give the first, " + first);
    std::filesystem::remove(third);
    expect_refused_in_both_modes({"-m", first, "-p", "x"}, failed, "is missing: " + third);
    std::filesystem::copy_file(second, third);
    expect_refused_in_both_modes({"-m", first, "-p", "x"}, failed, third);
}

// -- memory
// -------------------------------------------------------------------------------------------------------

TEST(CliMemory, CacheBelowTheMinimumNamesOneThatWorks) {
    // Experts of 256 KiB: the least cache is several MiB. The model has no vocabulary, so a cache that
    // suffices shows in the next complaint.
    const std::string model = tiny_model("tiny-qwen3moe", "f32");
    const auto with_cache = [&model](int mib) {
        return run({"-m", model, "-p", "x", "--moe-stream", "--cache-mb", std::to_string(mib)});
    };
    const ChildResult small = with_cache(1);
    expect_failed(small, "--cache-mb");
    EXPECT_EQ(small.out, "");
    std::smatch named;
    ASSERT_TRUE(std::regex_search(small.err, named, std::regex("--cache-mb ([0-9]+)"))) << small.err;
    const int least = std::stoi(named[1]);
    EXPECT_GT(least, 1);
    expect_failed(with_cache(least), "has no vocabulary");
    expect_failed(with_cache(least - 1), "--cache-mb " + std::to_string(least));
}

TEST(CliMemory, TooSmallAnAddressSpaceEndsWithASentence) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
    // Somewhat above what the program itself takes, to somewhat below what the model does.
    for (const rlim_t mib : {rlim_t{32}, rlim_t{44}, rlim_t{56}}) {
        for (const char *mode : {"--moe-stream", "--no-moe-stream"}) {
            SCOPED_TRACE(std::to_string(mib) + " " + mode);
            const ChildResult result = run({mode}, {.limits = {{RLIMIT_AS, mib << 20}}});
            expect_failed(result, "");
            EXPECT_EQ(result.out, "");
        }
    }
}

TEST(CliMemory, ContextThatCannotFitIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
    const ChildResult result = run({"-c", "10000000"}, {.limits = {{RLIMIT_AS, rlim_t{4} << 30}}});
    EXPECT_EQ(result.out, "");
    expect_failed(result, "MiB are missing");
}

// -- make-model
// ---------------------------------------------------------------------------------------------------

TEST(CliMakeModel, WritesTheModelAndPrintsItsPath) {
    const ScratchDir dir;
    const ChildResult made = sluice({"make-model", "--like", "tiny-dense", "-o", dir / "m.gguf"});
    EXPECT_EQ(made.exit_code, 0);
    EXPECT_EQ(made.out, dir / "m.gguf\n");
    EXPECT_EQ(made.err, "");
    EXPECT_TRUE(std::filesystem::exists(dir / "m.gguf"));
}

TEST(CliMakeModel, RefusesWithWhatThereIsInstead) {
    const ScratchDir dir;
    const std::string out = dir / "m.gguf";
    expect_refused(sluice({"make-model", "-o", out}), usage, "--like");
    expect_refused(sluice({"make-model", "--like", "tiny-dense"}), usage, "--out");
    expect_refused(sluice({"make-model", "--like", "huge", "-o", out}), usage,
                   "there is no recipe called \"huge\"; there are ");
    expect_refused(sluice({"make-model", "--like", "tiny-qwen3moe", "--type", "q4_9", "-o", out}), usage,
                   "q4_9");
    expect_refused(sluice({"make-model", "--like", "tiny-dense", "--layers", "-1", "-o", out}), usage,
                   "--layers");
    expect_refused(sluice({"make-model", "--like", "tiny-dense", "--shards", "0", "-o", out}), usage,
                   "--shards");
    expect_refused(sluice({"make-model", "--like", "tiny-dense", "-o", dir.path()}), usage,
                   dir.path() + " is a directory");
    expect_refused(sluice({"make-model", "--like", "tiny-dense", "-o", dir / "none/m.gguf"}), failed,
                   "No such file or directory");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(CliMakeModel, UnwritableDirectoryIsNamed) {
    if (is_root()) {
        GTEST_SKIP() << "root may write everywhere";
    }
    const ScratchDir dir;
    std::filesystem::create_directory(dir / "closed");
    std::filesystem::permissions(dir / "closed", std::filesystem::perms::owner_read);
    expect_refused(sluice({"make-model", "--like", "tiny-dense", "-o", dir / "closed/m.gguf"}), failed,
                   "closed/m.gguf");
}

TEST(CliMakeModel, FileSystemThatFillsUpLeavesNothing) {
    const ScratchDir dir;
    const ChildResult made = sluice({"make-model", "--like", "tiny-qwen3moe", "-o", dir / "m.gguf"},
                                    {.limits = {{RLIMIT_FSIZE, rlim_t{1} << 20}}});
    expect_refused(made, failed, "bytes needed: File too large");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

} // namespace
} // namespace sluice::test
