// Loading: dense weights only, names whole afterwards, also when it ends early.

#include "platform/memory_facts.h"
#include "session/model_state.h"
#include "support/gate.h"
#include "support/gate_prompt.h"

#include "ggml.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

// llama.cpp's own list of a model's tensors by name; exported, but in no header that is meant for others.
const std::vector<std::pair<std::string, ggml_tensor *>> &
llama_internal_get_tensor_map(const llama_model *model);

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kShadowMemory = true;
#else
constexpr bool kShadowMemory = false;
#endif

TEST(Loading, ReadsDenseWeightsAndHeadersOnly) {
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    const ModelInfo &info = model->info();
    ASSERT_TRUE(info.load_read_bytes.has_value());
    EXPECT_GT(info.streamed_bytes, 28 * kMiB);
    EXPECT_GE(*info.load_read_bytes, info.dense_bytes);
    // Headers are read by us and by llama.cpp, direct reads are widened to whole blocks, and probes compare
    // bytes.
    EXPECT_LT(*info.load_read_bytes, info.dense_bytes + 4 * kMiB) << "expert bytes were read while loading";
}

TEST(Loading, ReadsDenseWeightsOnlyWithoutDirectReadsToo) {
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force, .direct = false});
    ASSERT_TRUE(model) << model.error().message;
    ASSERT_TRUE(model->info().load_read_bytes.has_value());
    EXPECT_LT(*model->info().load_read_bytes, model->info().dense_bytes + 4 * kMiB);
}

TEST(Loading, PeakMemoryHoldsNoExperts) {
    if (kShadowMemory) {
        GTEST_SKIP() << "a sanitizer's own memory hides the program's";
    }
    const auto before = platform::read_process_memory().resident;
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    ASSERT_TRUE(before && model->info().load_peak_bytes);
    EXPECT_LT(*model->info().load_peak_bytes - *before, model->info().streamed_bytes / 2);
}

TEST(Loading, NamesAreWholeAgainAfterwards) {
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    size_t in_file = 0;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model->state().llama.get())) {
        EXPECT_EQ(name, ggml_get_name(tensor));
        in_file += model->state().directory->find(name) != nullptr ? 1 : 0;
    }
    EXPECT_EQ(in_file, model->state().directory->tensors().size());
}

TEST(Loading, CancelledHalfWayIsCleanAndTheNextLoadWorks) {
    for (const float stop_at : {0.0F, 0.3F, 0.9F}) {
        auto cancelled =
            Model::load({.path = embedded(), .stream = StreamMode::Force, .progress = [stop_at](float done) {
                             return done < stop_at;
                         }});
        ASSERT_FALSE(cancelled);
        EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled) << cancelled.error().message;
    }
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model->state().llama.get())) {
        EXPECT_EQ(name, ggml_get_name(tensor));
    }
}

TEST(Loading, ADenseModelStreamsNothingAndRuns) {
    const std::string path = tiny_model("tiny-dense");
    auto model = Model::load({.path = path, .stream = StreamMode::Force});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->info().expert_banks, 0U);
    const std::vector<float> stock = run_stock({.model = path});
    EXPECT_EQ(run_session(*model, {}), stock);
}

TEST(Loading, ModeIsAutoAndSaysWhy) {
    auto model = Model::load({.path = embedded()});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_FALSE(model->info().streaming) << "33 MB fit anywhere";
    EXPECT_NE(model->info().mode_reason.find("fits in memory"), std::string::npos)
        << model->info().mode_reason;
}

TEST(Loading, CacheBelowOneLayersNeedsNamesTheMinimum) {
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force, .cache_bytes = 100000});
    ASSERT_TRUE(model) << model.error().message;
    const auto session = Session::create(*model, {});
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().code, ErrorCode::OutOfMemory);
    EXPECT_NE(session.error().message.find("--cache-mb 1"), std::string::npos) << session.error().message;
}

TEST(Loading, AutoCacheHoldsEverythingWhenItFits) {
    auto model = Model::load({.path = embedded(), .stream = StreamMode::Force});
    auto session = Session::create(*model, {});
    ASSERT_TRUE(session) << session.error().message;
    EXPECT_GE(session->stats().experts.cache_bytes, model->info().streamed_bytes);
}

} // namespace
} // namespace sluice::test
