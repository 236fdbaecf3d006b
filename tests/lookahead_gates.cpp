// Byte identity where the next layer's experts are guessed, and where the cache begins with an earlier run's.

#include "residency/hot_set.h"
#include "session/model_state.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

/// Requires that experts were guessed and read, and that some of both was right.
void expect_guesses(const GateRun &run) {
    const LookaheadStats &look = run.stats.experts.lookahead;
    EXPECT_GT(look.experts, 0U);
    EXPECT_GT(look.right, 0U);
    EXPECT_LE(look.right, look.experts);
    EXPECT_GT(look.reads, 0U);
    EXPECT_GT(look.used, 0U);
    EXPECT_TRUE(look.on);
}

class Lookahead : public testing::TestWithParam<uint32_t> {};

TEST_P(Lookahead, OfSoManyExpertsChangesNoByte) {
    expect_guesses(
        expect_identical({.model = embedded(), .cache = CacheSize::WorkingSet, .lookahead = GetParam()}));
}

INSTANTIATE_TEST_SUITE_P(Experts, Lookahead, testing::Values(1U, 4U, 8U, 1000U));

TEST(LookaheadGates, AtTheSmallestCacheGuessesTakeNobodysPlaceThatIsNeeded) {
    const GateRun run = expect_identical({.model = embedded(), .cache = CacheSize::Minimum, .lookahead = 4});
    EXPECT_GT(run.stats.experts.lookahead.experts, 0U);
}

TEST(LookaheadGates, WithEverythingCachedItReadsNothingTwice) {
    const GateRun run =
        expect_identical({.model = embedded(), .cache = CacheSize::Everything, .prompts = 2, .lookahead = 4});
    EXPECT_EQ(run.stats.experts.rereads, 0U);
}

class LookaheadArchitecture : public testing::TestWithParam<const char *> {};

TEST_P(LookaheadArchitecture, ChangesNoByte) {
    const GateRun run =
        expect_identical({.model = tiny_model(GetParam()), .cache = CacheSize::WorkingSet, .lookahead = 4});
    EXPECT_GT(run.stats.experts.lookahead.experts, 0U) << "no router was found";
}

INSTANTIATE_TEST_SUITE_P(Recipes, LookaheadArchitecture,
                         testing::Values("tiny-mixed", "tiny-gemma4", "tiny-gpt-oss", "tiny-nemotron-h-moe",
                                         "tiny-hashed", "tiny-ernie"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// -- warm start
// ---------------------------------------------------------------------------------------------------

class WarmStart : public testing::Test {
protected:
    struct Outcome {
        std::vector<float> logits;
        residency::GuessCounters guesses;
    };

    /// Loads the model anew, feeds it, and lets it keep what was hot.
    Outcome run(const GateConfig &config, CacheSize cache) {
        ModelOptions options = gate_options(config);
        options.hot_set_folder = dir_.path();
        options.cache_bytes = cache_bytes(config.model, cache, true);
        auto model = Model::load(options);
        if (!model) {
            ADD_FAILURE() << model.error().message;
            return {};
        }
        Outcome outcome{.logits = run_session(*model, config), .guesses = {}};
        outcome.guesses = model->state().streamed->store->cache()->counters().guesses.at(
            static_cast<size_t>(residency::Guess::WarmStart));
        return outcome;
    }

    std::string only_file() {
        std::string path;
        for (const auto &entry : std::filesystem::directory_iterator(dir_.path())) {
            EXPECT_EQ(path, "") << "more than one file";
            path = entry.path().string();
        }
        return path;
    }

    const GateConfig config_{.model = embedded(), .prompt = 6, .drawn = 8};
    ScratchDir dir_;
};

TEST_F(WarmStart, BeginsWithWhatTheLastRunHeldAndChangesNoByte) {
    const std::vector<float> stock = run_stock(config_);
    const Outcome cold = run(config_, CacheSize::Everything);
    EXPECT_EQ(cold.guesses.reads, 0U);
    EXPECT_EQ(cold.logits, stock);
    const Outcome warm = run(config_, CacheSize::Everything);
    EXPECT_GT(warm.guesses.reads, 0U);
    EXPECT_GT(warm.guesses.used, 0U);
    EXPECT_EQ(warm.logits, stock);
}

TEST_F(WarmStart, IntoASmallerCacheReadsNoMoreThanItHolds) {
    const std::vector<float> stock = run_stock(config_);
    run(config_, CacheSize::Everything);
    const Outcome warm = run(config_, CacheSize::WorkingSet);
    EXPECT_GT(warm.guesses.reads, 0U);
    EXPECT_EQ(warm.logits, stock);
}

TEST_F(WarmStart, ADamagedFileIsIgnoredAndReplaced) {
    run(config_, CacheSize::WorkingSet);
    const std::string path = only_file();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    EXPECT_EQ(run(config_, CacheSize::WorkingSet).guesses.reads, 0U);
    EXPECT_GT(run(config_, CacheSize::WorkingSet).guesses.reads, 0U);
}

TEST_F(WarmStart, AFileOfAnEarlierModelAtTheSamePathIsIgnored) {
    const std::string path = scratch_path("replaced.gguf");
    std::filesystem::copy_file(embedded(), path, std::filesystem::copy_options::overwrite_existing);
    GateConfig config = config_;
    config.model = path;
    run(config, CacheSize::WorkingSet);
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(2));
    EXPECT_EQ(run(config, CacheSize::WorkingSet).guesses.reads, 0U);
    std::filesystem::remove(path);
}

} // namespace
} // namespace sluice::test
