// The C interface: its handles, its errors, and that what it announces is streamed.
#include "sluice/sluice.h"

#include "support/gate.h"
#include "support/gate_contexts.h"

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <thread>

namespace sluice::test {
namespace {

using testing::HasSubstr;

struct Free {
    void operator()(llama_model *model) const { llama_model_free(model); }
    void operator()(sluice_options *options) const { sluice_options_free(options); }
    void operator()(sluice_model *model) const { sluice_model_close(model); }
};
using Options = std::unique_ptr<sluice_options, Free>;
using Handle = std::unique_ptr<sluice_model, Free>;
using Llama = std::unique_ptr<llama_model, Free>;

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

Llama load(const std::string &path) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    return Llama(llama_model_load_from_file(path.c_str(), params));
}

class CInterface : public testing::Test {
protected:
    sluice_error error_ = [] {
        sluice_error error = {};
        error.size = sizeof(error);
        return error;
    }();
    Options options_{sluice_options_new()};
};

TEST_F(CInterface, TellsItsVersions) {
    EXPECT_EQ(sluice_api_version(), SLUICE_API_VERSION);
    EXPECT_THAT(sluice_version(), HasSubstr("."));
}

TEST_F(CInterface, DescribesEveryOption) {
    std::set<std::string> names;
    for (size_t i = 0; i < sluice_option_count(); ++i) {
        sluice_option_info info = {};
        info.size = sizeof(info);
        ASSERT_EQ(sluice_option_describe(i, &info, &error_), SLUICE_OK);
        EXPECT_EQ(info.size, sizeof(info));
        EXPECT_GT(std::strlen(info.help), 0U);
        names.insert(info.name);
    }
    EXPECT_EQ(names.size(), sluice_option_count());
    EXPECT_TRUE(names.contains("cache-mb"));
    sluice_option_info info = {};
    EXPECT_EQ(sluice_option_describe(sluice_option_count(), &info, &error_), SLUICE_INVALID_ARGUMENT);
}

TEST_F(CInterface, NamesOptionAndValueThatAreWrong) {
    EXPECT_EQ(sluice_options_set(options_.get(), "cache-mb", "lots", &error_), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(error_.code, SLUICE_INVALID_ARGUMENT);
    EXPECT_THAT(error_.message, HasSubstr("cache-mb: 'lots'"));
    EXPECT_EQ(sluice_options_set(options_.get(), "cash-mb", "1", nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(sluice_options_set(options_.get(), nullptr, "1", &error_), SLUICE_INVALID_ARGUMENT);
    EXPECT_EQ(sluice_options_set(nullptr, "cache-mb", "1", &error_), SLUICE_INVALID_ARGUMENT);
}

/// An application built with an older header has smaller structs.
TEST_F(CInterface, WritesNoFurtherThanTheCallersStruct) {
    struct {
        sluice_error error;
        char behind[8];
    } place;
    std::memset(&place, 0x5A, sizeof(place));
    place.error.size = offsetof(sluice_error, message) + 16;
    EXPECT_EQ(sluice_expect_model("/nowhere/at/all.gguf", nullptr, &place.error), SLUICE_NOT_FOUND);
    EXPECT_EQ(place.error.size, offsetof(sluice_error, message) + 16);
    EXPECT_EQ(place.error.message[16], 0x5A);
}

TEST_F(CInterface, PlansAndLeavesTheApplicationsLogAlone) {
    const auto log = [](ggml_log_level, const char *, void *) {};
    llama_log_set(log, this);
    sluice_plan plan = {};
    plan.size = sizeof(plan);
    sluice_context_plan context = {};
    context.size = sizeof(context);
    context.n_ctx = 256;
    ASSERT_EQ(sluice_options_set(options_.get(), "moe-stream", "on", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_plan_run(embedded().c_str(), options_.get(), &context, &plan, &error_), SLUICE_OK)
        << error_.message;
    EXPECT_EQ(plan.streams, 1);
    EXPECT_EQ(plan.n_ctx, 256U);
    EXPECT_GT(plan.n_threads, 0);
    EXPECT_GE(plan.cache_bytes, plan.token_bytes);
    EXPECT_GT(plan.peak_bytes, plan.cache_bytes);
    ggml_log_callback now = nullptr;
    void *user = nullptr;
    llama_log_get(&now, &user);
    EXPECT_EQ(now, static_cast<ggml_log_callback>(log));
    EXPECT_EQ(user, this);
    llama_log_set(nullptr, nullptr);
}

TEST_F(CInterface, RefusesAPlanThatDoesNotFit) {
    ASSERT_EQ(sluice_options_set(options_.get(), "ram-mb", "5", &error_), SLUICE_OK);
    EXPECT_EQ(sluice_plan_run(embedded().c_str(), options_.get(), nullptr, nullptr, &error_),
              SLUICE_OUT_OF_MEMORY);
    EXPECT_THAT(error_.message, HasSubstr("MiB"));
}

TEST_F(CInterface, StreamsWhatItAnnouncedAndComputesTheBytesOfStock) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    ASSERT_EQ(sluice_options_set(options_.get(), "cache-mb", "8", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_expect_model(config.model.c_str(), options_.get(), &error_), SLUICE_OK);
    const Llama model = load(config.model);
    ASSERT_NE(model, nullptr);
    const Handle handle(sluice_model_open(config.model.c_str(), &error_));
    ASSERT_NE(handle, nullptr) << error_.message;
    std::vector<float> logits;
    ASSERT_TRUE(decode_in_contexts(config.batch, model.get(), config.threads, logits));
    EXPECT_EQ(logits, run_stock(config));

    sluice_stats stats = {};
    stats.size = sizeof(stats);
    ASSERT_EQ(sluice_model_stats(handle.get(), &stats, &error_), SLUICE_OK);
    EXPECT_GT(stats.graphs, 0U);
    EXPECT_GT(stats.misses, 0U);
    EXPECT_GT(stats.evictions, 0U);
    EXPECT_GT(stats.bytes_read, 0U);
    EXPECT_LE(stats.cache_held_bytes, stats.cache_bytes);
    EXPECT_EQ(sluice_model_last_error(handle.get(), &error_), SLUICE_OK);
    EXPECT_STREQ(error_.message, "");
}

TEST_F(CInterface, GivesMemoryOfTheCacheBackAndGoesOn) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    ASSERT_EQ(sluice_options_set(options_.get(), "cache-mb", "16", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_expect_model(config.model.c_str(), options_.get(), &error_), SLUICE_OK);
    const Llama model = load(config.model);
    const Handle handle(sluice_model_open(config.model.c_str(), &error_));
    ASSERT_NE(handle, nullptr);
    std::vector<float> logits;
    ASSERT_TRUE(decode_in_contexts(config.batch, model.get(), config.threads, logits));
    sluice_stats before = {};
    before.size = sizeof(before);
    sluice_model_stats(handle.get(), &before, nullptr);
    EXPECT_GT(sluice_model_trim(handle.get()), 0U);
    sluice_stats trimmed = {};
    trimmed.size = sizeof(trimmed);
    sluice_model_stats(handle.get(), &trimmed, nullptr);
    EXPECT_LT(trimmed.cache_held_bytes, before.cache_held_bytes);
    EXPECT_EQ(sluice_model_set_cache_limit(handle.get(), uint64_t{8} << 20U, &error_), SLUICE_OK);
    EXPECT_EQ(sluice_model_set_cache_limit(handle.get(), 1, &error_), SLUICE_INVALID_ARGUMENT);
    logits.clear();
    ASSERT_TRUE(decode_in_contexts(config.batch, model.get(), config.threads, logits));
    EXPECT_EQ(logits, run_stock(config));
    sluice_stats after = {};
    after.size = sizeof(after);
    sluice_model_stats(handle.get(), &after, nullptr);
    EXPECT_LE(after.cache_limit_bytes, uint64_t{8} << 20U) << "memory that is free does not undo it";
}

TEST_F(CInterface, SaysWhyAGraphFailed) {
    const std::string path = scratch_path("cut-short.gguf");
    std::filesystem::copy_file(embedded(), path, std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(sluice_options_set(options_.get(), "cache-mb", "8", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_expect_model(path.c_str(), options_.get(), &error_), SLUICE_OK);
    const Llama model = load(path);
    const Handle handle(sluice_model_open(path.c_str(), &error_));
    ASSERT_NE(handle, nullptr);
    std::filesystem::resize_file(path, 4096);
    std::vector<float> logits;
    GateSequence sequence(model.get(), 64, 2, logits);
    EXPECT_FALSE(sequence.prompt(0, 4));
    EXPECT_EQ(sluice_model_last_error(handle.get(), &error_), SLUICE_INVALID_FORMAT);
    EXPECT_THAT(error_.message, HasSubstr(path));
    std::filesystem::remove(path);
}

TEST_F(CInterface, KnowsNoModelThatIsNotStreamed) {
    EXPECT_EQ(sluice_model_open("/nowhere.gguf", &error_), nullptr);
    EXPECT_EQ(error_.code, SLUICE_NOT_FOUND);
    ASSERT_EQ(sluice_options_set(options_.get(), "moe-stream", "off", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_expect_model(embedded().c_str(), options_.get(), &error_), SLUICE_OK);
    const Llama model = load(embedded());
    EXPECT_EQ(sluice_model_open(embedded().c_str(), &error_), nullptr);
}

TEST_F(CInterface, TellsNoticesToItsSinkAndPrintsNothing) {
    std::string heard;
    sluice_set_notice_sink(
        [](const char *sentence, void *user) { *static_cast<std::string *>(user) += sentence; }, &heard);
    testing::internal::CaptureStderr();
    ASSERT_EQ(sluice_options_set(options_.get(), "cache-mb", "8", &error_), SLUICE_OK);
    ASSERT_EQ(sluice_expect_model(tiny_model("tiny-idle").c_str(), options_.get(), &error_), SLUICE_OK);
    sluice_set_notice_sink(nullptr, nullptr);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
} // namespace sluice::test
