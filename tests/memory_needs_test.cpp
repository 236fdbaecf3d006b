// What a run needs, on paper, against what it then takes.

#include "planning/memory_needs.h"
#include "platform/file.h"
#include "session/model_state.h"
#include "support/gate.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

class Needs : public testing::TestWithParam<const char *> {};

/// Of the banks that some graph uses.
uint64_t used_expert_bytes(const streaming::StreamedStore &store) {
    uint64_t bytes = 0;
    for (residency::BankId bank = 0; bank < store.banks().size(); ++bank) {
        const bool is_used = store.cache()->has_slots(bank);
        bytes += is_used ? store.banks()[bank].expert_count * store.banks()[bank].slice_bytes : 0;
    }
    return bytes;
}

TEST_P(Needs, OnPaperAreThoseOfTheRealRun) {
    const std::string path = tiny_model(GetParam());
    for (const bool rows : {false, true}) {
        ModelOptions options{.path = path,
                             .stream = StreamMode::Force,
                             .cache_bytes = uint64_t{64} << 20U,
                             .row_stream = rows};
        const SessionOptions session_options{.context_tokens = 512, .ubatch_tokens = 64, .threads = 2};
        auto directory = gguf::GgufDirectory::open(path, true, platform::system_files());
        ASSERT_TRUE(directory);
        const auto needs = planning::measure_needs(options, session_options, true, **directory);
        ASSERT_TRUE(needs) << needs.error().message;

        auto model = Model::load(options);
        ASSERT_TRUE(model) << model.error().message;
        auto session = Session::create(*model, session_options);
        ASSERT_TRUE(session) << session.error().message;
        const RunStats stats = session->stats();
        EXPECT_EQ(needs->dense_bytes, stats.dense_bytes);
        EXPECT_EQ(needs->context_bytes, stats.context_bytes);
        EXPECT_EQ(needs->compute_bytes, stats.compute_bytes);
        EXPECT_EQ(needs->expert_bytes, used_expert_bytes(*model->state().streamed->store));
        EXPECT_EQ(needs->cache_useful_bytes, stats.experts.cache_bytes) << "64 MiB hold every expert";
        EXPECT_EQ(needs->row_table_bytes, model->info().row_table_bytes);
        EXPECT_EQ(needs->cache_minimum_bytes, stats.experts.cache_minimum_bytes);
        EXPECT_EQ(needs->working_set_bytes, stats.experts.token_working_set_bytes);
    }
}

TEST(NeedsOfIdleExperts, AreNone) {
    const std::string path = tiny_model("tiny-idle");
    auto model = Model::load({.path = path, .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    auto session = Session::create(*model, {.context_tokens = 256, .threads = 2});
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_EQ(model->info().expert_banks, 9U) << "three layers of gate, up and down";
    EXPECT_EQ(used_expert_bytes(*model->state().streamed->store) * 3, model->info().streamed_bytes * 2)
        << "the third layer's are loaded, and in no graph";
}

INSTANTIATE_TEST_SUITE_P(Recipes, Needs,
                         testing::Values("tiny-qwen3moe", "tiny-mixed", "tiny-gemma4", "tiny-gpt-oss",
                                         "tiny-tied", "tiny-nemotron-h-moe", "tiny-vocab", "tiny-hashed",
                                         "tiny-ernie", "tiny-idle"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

} // namespace
} // namespace sluice::test
