// A ceiling is held: a model of 2.3 GiB runs in control groups of exactly the memory it was allowed.

#include "platform/memory_facts.h"
#include "support/cli.h"
#include "support/memory_group.h"
#include "support/temp_file.h"
#include "tools/make_model.h"

#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20U;
constexpr uint64_t kModelBytes = 2500 * kMiB;
constexpr uint64_t kResidentBytes = 3200 * kMiB; // what the run without a ceiling may take

// One near the least that the model needs, with a cache below what one token touches; one that must leave the
// embedding table in the file; one with room.
constexpr uint64_t kCeilings[] = {620, 700, 1000};

/// Forgets the file's pages: those found in memory would be charged to nobody.
void drop_from_page_cache(const std::string &path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
}

/// A prompt that nearly fills the context, takes five ubatches and asks for nearly every expert: words of the
/// model's vocabulary.
std::string long_prompt() {
    std::string prompt = "w1";
    for (uint64_t i = 1; i < 2060; ++i) {
        prompt += fmt::format(" w{}", i * 7919 % 100000);
    }
    return prompt;
}

std::vector<std::string> arguments(const std::string &model, std::vector<std::string> more) {
    std::vector<std::string> all{"run", "-m",     model, "-p", long_prompt(), "-n",
                                 "16",  "--temp", "0",   "-c", "2304",        "--no-repack"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

/// The number that `pattern` finds in what a run said, 0 if it finds none.
double number_in(const std::string &text, const std::string &pattern) {
    std::smatch match;
    return std::regex_search(text, match, std::regex(pattern)) ? std::stod(match[1]) : 0;
}

/// A run under a ceiling of so many MiB.
ChildResult run_under(uint64_t ceiling, const std::string &model) {
    SCOPED_TRACE(fmt::format("a ceiling of {} MiB", ceiling));
    std::string why_not;
    const auto group = MemoryGroup::make(ceiling * kMiB, why_not);
    EXPECT_NE(group, nullptr) << why_not;
    if (group == nullptr) {
        return {};
    }
    drop_from_page_cache(model);
    const ChildResult run = sluice(arguments(model, {"--ram-mb", std::to_string(ceiling)}),
                                   {.join_group = group->processes_file(), .timeout_seconds = 240});
    EXPECT_EQ(run.signal, 0);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(group->kills().value_or(0), 0U);
    EXPECT_EQ(group->swap_bytes().value_or(0), 0U);
    // The group's peak counts page cache as well. What it does not count: pages of programs read before.
    EXPECT_GT(group->peak_bytes().value_or(0), 0U);
    EXPECT_LE(group->peak_bytes().value_or(0), ceiling * kMiB);
    const double peak = number_in(run.err, "memory: peak ([0-9.]+) MiB");
    EXPECT_GT(peak, 0);
    EXPECT_LE(peak, static_cast<double>(ceiling));
    EXPECT_GT(number_in(run.err, "moe-stream: ([0-9.]+) MiB read"), 0) << run.err;
    EXPECT_GT(number_in(run.err, "([0-9]+) evictions"), 0) << run.err;
    EXPECT_EQ(run.err.find("short of memory"), std::string::npos) << run.err;
    return run;
}

/// Why this machine can't run the test; empty if it can.
std::string missing_here(const ScratchDir &dir) {
    std::string why_not;
    if (MemoryGroup::make(1000 * kMiB, why_not) == nullptr) {
        return why_not;
    }
    if (std::filesystem::space(dir.path()).available < kModelBytes + 500 * kMiB) {
        return fmt::format("{} has no room for a model of {} MiB", dir.path(), kModelBytes / kMiB);
    }
    const auto usable = platform::usable_memory(platform::read_memory_facts());
    if (!usable || *usable < kResidentBytes) {
        return fmt::format("the run that it is compared with needs {} MiB of memory", kResidentBytes / kMiB);
    }
    return {};
}

TEST(Ceiling, IsHeldWithoutAKillOrSwapAndTheTextIsThatOfTheModelInMemory) {
    const ScratchDir dir;
    if (const std::string missing = missing_here(dir); !missing.empty()) {
        GTEST_SKIP() << missing;
    }
    const auto model = tools::make_model({.like = "qwen3-words"}, dir / "words.gguf", {});
    ASSERT_TRUE(model) << model.error().message;
    ASSERT_GT(std::filesystem::file_size(*model), 2 * 1024 * kMiB);
    const ChildResult resident = sluice(arguments(*model, {"--no-moe-stream"}), {.timeout_seconds = 240});
    ASSERT_EQ(resident.exit_code, 0) << resident.err;
    ASSERT_EQ(resident.out.find(long_prompt()), 0U) << "the prompt is printed first";
    ASSERT_GT(resident.out.size(), long_prompt().size() + 16);
    for (const uint64_t ceiling : kCeilings) {
        const ChildResult run = run_under(ceiling, *model);
        EXPECT_EQ(run.out, resident.out);
        // So that the ceilings stay what they are meant to be.
        const bool small_cache = run.err.find("more than the cache holds") != std::string::npos;
        const bool rows_on_storage = run.err.find("moe-rows:") != std::string::npos;
        EXPECT_EQ(small_cache, ceiling == kCeilings[0]) << run.err;
        EXPECT_TRUE(rows_on_storage) << "it is free, and the cache gets larger" << run.err;
    }
}

} // namespace
} // namespace sluice::test
