// Models that other code loads with llama.cpp: which files are streamed, how that is found out, and that
// their contexts compute the bytes of stock.
#include "streaming/model/load_source.h"

#include "streaming/device/streaming_device.h"
#include "streaming/model/host.h"
#include "support/gate.h"
#include "support/gate_contexts.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace sluice::test {
namespace {

using streaming::LoadSource;

struct FreeModel {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
using Llama = std::unique_ptr<llama_model, FreeModel>;

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

/// As a program loads that knows nothing of Sluice.
Llama load(const std::string &path, llama_load_mode mode = LLAMA_LOAD_MODE_NONE, bool on_paper = false) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = mode;
    params.no_alloc = on_paper;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    return Llama(llama_model_load_from_file(path.c_str(), params));
}

/// Announces `config.model` with a cache of one token's slices.
void expect(const GateConfig &config) {
    ModelOptions options = gate_options(config);
    options.cache_bytes = cache_bytes(config.model, config.cache, config.direct);
    const Status expected = expect_model(options);
    ASSERT_TRUE(expected) << expected.error().message;
}

std::shared_ptr<streaming::StreamedModel> streamed(const std::string &path) {
    for (auto &model : LoadSource::instance().models()) {
        if (model->options.path == path) {
            return model;
        }
    }
    return nullptr;
}

void expect_bytes_of_stock(const GateConfig &config, llama_model *model) {
    std::vector<float> logits;
    ASSERT_TRUE(decode_in_contexts(config.batch, model, config.threads, logits));
    const std::vector<float> stock = run_stock(config);
    ASSERT_FALSE(stock.empty());
    ASSERT_EQ(stock.size(), logits.size());
    EXPECT_EQ(std::memcmp(stock.data(), logits.data(), stock.size() * sizeof(float)), 0);
}

void expect_streamed(const std::string &path) {
    const auto model = streamed(path);
    ASSERT_NE(model, nullptr);
    const ExpertStats stats = streaming::expert_stats(*model);
    EXPECT_GT(stats.misses, 0U);
    EXPECT_GT(stats.bytes_read, 0U);
    EXPECT_GT(stats.evictions, 0U);
    EXPECT_EQ(stats.materialized, 0U);
    EXPECT_EQ(model->store->hidden_names(), 0U);
}

class FoundLoads : public testing::TestWithParam<std::string> {
protected:
    [[nodiscard]] std::string path() const {
        return GetParam().empty() ? embedded() : tiny_model(GetParam());
    }
};

TEST_P(FoundLoads, ComputeTheBytesOfStock) {
    const GateConfig config{.model = path(), .batch = BatchKind::BeforeAndAfter};
    expect(config);
    const Llama model = load(config.model);
    ASSERT_NE(model, nullptr);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
}

INSTANTIATE_TEST_SUITE_P(Models, FoundLoads, testing::Values("", "tiny-qwen3moe", "tiny-nemotron-h-moe"),
                         [](const auto &info) {
                             std::string name = info.param.empty() ? "embedded" : info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(FoundLoad, OfSeveralShardsComputesTheBytesOfStock) {
    const GateConfig config{.model = tiny_model("tiny-qwen3moe", "", 3), .batch = BatchKind::Ubatches};
    expect(config);
    const Llama model = load(config.model);
    ASSERT_NE(model, nullptr);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
}

TEST(FoundLoad, WithRowsComputesTheBytesOfStock) {
    const GateConfig config{
        .model = embedded(), .row_window = uint64_t{1} << 20U, .batch = BatchKind::Ubatches};
    expect(config);
    const Llama model = load(config.model);
    ASSERT_NE(model, nullptr);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
    EXPECT_GT(streaming::row_stats(*streamed(config.model)).reads, 0U);
}

TEST(FoundLoad, EndsItsStreamWithTheModel) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    expect(config);
    for (int round = 0; round < 3; ++round) {
        const Llama model = load(config.model);
        ASSERT_NE(model, nullptr);
        expect_bytes_of_stock(config, model.get());
        expect_streamed(config.model);
    }
    EXPECT_EQ(streamed(config.model), nullptr);
}

TEST(FoundLoad, MayComeAfterOneOnPaper) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    expect(config);
    {
        const Llama paper = load(config.model, LLAMA_LOAD_MODE_NONE, true);
        ASSERT_NE(paper, nullptr);
        const GateContext context(
            llama_init_from_model(paper.get(), gate_context(64, 64, 2, BatchKind::Tokens)));
        EXPECT_NE(context, nullptr);
    }
    const Llama model = load(config.model);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
}

/// A copy of `path` with the same tensors by name, type and shape, but other bytes in one bank of experts.
std::string altered_copy(const std::string &path) {
    const std::string copy = scratch_path("altered.gguf");
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    const auto directory = gguf::GgufDirectory::open(path, false, platform::system_files());
    for (const gguf::TensorEntry &entry : (*directory)->tensors()) {
        if (entry.shape[2] > 1) {
            std::fstream file(copy, std::ios::binary | std::ios::in | std::ios::out);
            // Values of q4_K blocks, and no scales, which might become numbers that are none.
            for (uint64_t block = 0; block < 1000; ++block) {
                file.seekp(static_cast<std::streamoff>(entry.offset + block * 144 + 16));
                file << std::string(128, '\x5A');
            }
            return copy;
        }
    }
    ADD_FAILURE() << path << " has no experts";
    return copy;
}

TEST(FoundLoad, IsNotTakenForAnotherModelOfTheSameShapes) {
    const GateConfig one{.model = tiny_model("tiny-qwen3moe"), .batch = BatchKind::Ubatches};
    const GateConfig other{.model = altered_copy(one.model), .batch = BatchKind::Ubatches};
    ASSERT_NE(run_stock(one), run_stock(other));
    expect(one);
    expect(other);
    const Llama paper = load(one.model, LLAMA_LOAD_MODE_NONE, true);
    const Llama first = load(other.model);
    const Llama second = load(one.model);
    expect_bytes_of_stock(other, first.get());
    expect_bytes_of_stock(one, second.get());
    expect_streamed(one.model);
    expect_streamed(other.model);
}

/// The loader's own file is not open then, so it may be either.
TEST(FoundLoad, ThatMayBeOfEitherOfTwoFilesIsNotStreamed) {
    const std::string path = tiny_model("tiny-qwen3moe");
    const std::string other = altered_copy(path);
    expect({.model = path});
    expect({.model = other});
    const std::ifstream held(other);
    const Llama model = load(path);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(streamed(path), nullptr);
    EXPECT_EQ(streamed(other), nullptr);
}

TEST(FoundLoad, OfAFileThatNobodyAnnouncedIsHeldInMemory) {
    expect({.model = tiny_model("tiny-qwen3moe")});
    const std::string path = embedded();
    const std::string copy = scratch_path("unannounced.gguf");
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    const GateConfig config{.model = copy, .repack = false, .batch = BatchKind::Ubatches};
    const Llama model = load(copy);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(streamed(copy), nullptr);
    std::filesystem::remove(copy);
}

TEST(FoundLoad, OfAFileReachedByALinkIsFoundAllTheSame) {
    const std::string link = scratch_path("link.gguf");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(embedded(), link);
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    expect(config);
    const Llama model = load(link);
    ASSERT_NE(model, nullptr);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
    std::filesystem::remove(link);
}

TEST(FoundLoad, ThatFailsLeavesNothingBehind) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    expect(config);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.progress_callback = [](float, void *) { return false; };
    EXPECT_EQ(llama_model_load_from_file(config.model.c_str(), params), nullptr);
    EXPECT_EQ(streamed(config.model), nullptr);
    const Llama model = load(config.model);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
}

TEST(FoundLoad, MappedComputesTheBytesOfStock) {
    const GateConfig config{.model = embedded(), .batch = BatchKind::Ubatches};
    expect(config);
    const Llama model = load(config.model, LLAMA_LOAD_MODE_MMAP);
    ASSERT_NE(model, nullptr);
    expect_bytes_of_stock(config, model.get());
    expect_streamed(config.model);
}

TEST(FoundLoad, TwoAtOnceFromTwoThreadsComputeTheBytesOfStock) {
    const GateConfig configs[] = {{.model = embedded(), .batch = BatchKind::Ubatches},
                                  {.model = tiny_model("tiny-qwen3moe"), .batch = BatchKind::Draft}};
    expect(configs[0]);
    expect(configs[1]);
    for (int round = 0; round < 5; ++round) {
        Llama models[2];
        {
            std::vector<std::jthread> threads;
            for (size_t i = 0; i < 2; ++i) {
                threads.emplace_back([&, i] { models[i] = load(configs[i].model); });
            }
        }
        for (size_t i = 0; i < 2; ++i) {
            SCOPED_TRACE(configs[i].model);
            ASSERT_NE(models[i], nullptr);
            ASSERT_NE(streamed(configs[i].model), nullptr);
        }
        if (round == 0) {
            expect_bytes_of_stock(configs[0], models[0].get());
            expect_bytes_of_stock(configs[1], models[1].get());
        }
    }
}

TEST(FoundLoad, OfAFileThatIsNotThereIsAnErrorWhenAnnounced) {
    const Status missing = expect_model({.path = "/nowhere/model.gguf"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_THAT(missing.error().message, testing::HasSubstr("/nowhere/model.gguf"));
}

} // namespace
} // namespace sluice::test
