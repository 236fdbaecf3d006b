// Made models: the same bytes every time, and whole or not there at all.
#include "tools/make_model.h"

#include "support/temp_file.h"
#include "tools/make_model_recipes.h"

#include "ggml.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/resource.h>

namespace sluice::tools {
namespace {

using test::ScratchDir;

std::string read_file(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

size_t entries(const ScratchDir &dir) {
    const std::filesystem::directory_iterator files(dir.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
}

std::string made(const ModelRecipe &recipe, const std::string &path) {
    const auto result = make_model(recipe, path, {});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or("");
}

TEST(MakeModel, SameRecipeAndSeedGiveTheSameBytes) {
    const ScratchDir dir;
    for (const char *like : {"tiny-qwen3moe", "tiny-gemma4", "tiny-gemma-dense", "tiny-gpt-oss",
                             "tiny-nemotron-h-moe", "tiny-hashed", "tiny-vocab", "tiny-ernie"}) {
        made({.like = like}, dir / "a.gguf");
        made({.like = like}, dir / "b.gguf");
        made({.like = like, .seed = 8}, dir / "c.gguf");
        const std::string a = read_file(dir / "a.gguf");
        const std::string b = read_file(dir / "b.gguf");
        const std::string c = read_file(dir / "c.gguf");
        EXPECT_GT(a.size(), 100000U);
        EXPECT_TRUE(a == b) << like;
        EXPECT_EQ(a.size(), c.size());
        EXPECT_FALSE(a == c) << like;
    }
}

// The numbers pin the format: a change here means that published checksums of made models change too.
TEST(MakeModel, BytesAreTheSameOnEveryMachine) {
    const auto sum = [](int type, const Fill &fill, size_t bytes) {
        std::vector<std::byte> buffer(bytes);
        WeightStream(type, fill, "name", 7).next(buffer);
        uint64_t hash = 0xcbf29ce484222325U;
        for (const std::byte value : buffer) {
            hash = (hash ^ std::to_integer<uint64_t>(value)) * 0x100000001b3U;
        }
        return hash;
    };
    EXPECT_EQ(sum(GGML_TYPE_Q4_K, {0, 0.0625}, 1440), 0xbfb3fac73ae4d57bU);
    EXPECT_EQ(sum(GGML_TYPE_IQ1_M, {0, 0.0625}, 560), 0x86d2002da2313f64U);
    EXPECT_EQ(sum(GGML_TYPE_TQ1_0, {0, 0.0625}, 540), 0xea4f7ee1a25de807U);
    EXPECT_EQ(sum(GGML_TYPE_MXFP4, {0, 0.0625}, 170), 0x9e845a37b6ac3484U);
    EXPECT_EQ(sum(GGML_TYPE_NVFP4, {0, 0.0625}, 360), 0x2b9e34064d7a08eU);
    EXPECT_EQ(sum(GGML_TYPE_F16, {0, 0.0625}, 640), 0x7afc129763ca7ea9U);
    EXPECT_EQ(sum(GGML_TYPE_BF16, {0, 0.0625}, 640), 0x9a9f56d9f1ff3fddU);
    EXPECT_EQ(sum(GGML_TYPE_F32, {1, 0}, 640), 0x3bebf4209296be37U);
}

TEST(MakeModel, KnowsEveryTypeThatGgmlCanQuantiseTo) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const ggml_type_traits *traits = ggml_get_type_traits(type);
        const bool for_activations = type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K;
        if (traits->to_float != nullptr && !for_activations) {
            EXPECT_EQ(weight_type(traits->type_name), i) << traits->type_name;
        }
    }
}

TEST(MakeModel, WeightsOfEveryTypeAreCentredAndOfTheSpreadAskedFor) {
    constexpr double spread = 0.0625;
    constexpr int64_t count = 256 * 1024;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const ggml_type_traits *traits = ggml_get_type_traits(type);
        if (traits->type_name == nullptr || !weight_type(traits->type_name)) {
            continue;
        }
        std::vector<std::byte> bytes(ggml_row_size(type, count));
        WeightStream(type, {0, spread}, "name", 7).next(bytes);
        EXPECT_TRUE(ggml_validate_row_data(type, bytes.data(), bytes.size())) << traits->type_name;
        std::vector<float> values(count);
        if (type == GGML_TYPE_F32) {
            std::copy_n(reinterpret_cast<const float *>(bytes.data()), count, values.begin());
        } else {
            traits->to_float(bytes.data(), values.data(), count);
        }
        double sum = 0;
        double squares = 0;
        for (const float value : values) {
            sum += value;
            squares += double{value} * value;
        }
        const double deviation = std::sqrt(squares / count);
        EXPECT_GT(deviation, spread * 0.6) << traits->type_name; // scales of 4 to 8 bits are coarse
        EXPECT_LT(deviation, spread * 1.2) << traits->type_name;
        EXPECT_LT(std::abs(sum / count), spread * 0.5) << traits->type_name;
    }
}

TEST(MakeModel, BigRecipeHasTheRealShapeCutToTheLayersAskedFor) {
    const auto whole = plan_model({.like = "qwen3-30b-a3b"});
    const auto half = plan_model({.like = "qwen3-30b-a3b", .layers = 24});
    ASSERT_TRUE(whole && half);
    EXPECT_EQ(whole->tensors.size(), 3U + 48 * 12);
    EXPECT_EQ(half->tensors.size(), 3U + 24 * 12);
    int richer = 0;
    for (const TensorPlan &tensor : whole->tensors) {
        if (tensor.name.ends_with("ffn_down_exps.weight")) {
            EXPECT_EQ(tensor.shape, (std::array<int64_t, 4>{768, 2048, 128, 1}));
            richer += tensor.type == GGML_TYPE_Q6_K ? 1 : 0;
        } else if (tensor.name.ends_with("_exps.weight")) {
            EXPECT_EQ(tensor.shape, (std::array<int64_t, 4>{2048, 768, 128, 1}));
            EXPECT_EQ(tensor.type, GGML_TYPE_Q4_K);
        }
    }
    EXPECT_EQ(richer, 24);
}

const TensorPlan &find_tensor(const ModelPlan &plan, const std::string &name) {
    const auto at = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                                 [&name](const TensorPlan &tensor) { return tensor.name == name; });
    EXPECT_NE(at, plan.tensors.end()) << name;
    return *at;
}

uint64_t bytes_of(const TensorPlan &tensor) {
    return ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]) *
           static_cast<uint64_t>(tensor.shape[1] * tensor.shape[2]);
}

uint64_t bytes_of(const ModelPlan &plan) {
    uint64_t bytes = 0;
    for (const TensorPlan &tensor : plan.tensors) {
        bytes += bytes_of(tensor);
    }
    return bytes;
}

TEST(MakeModel, LargeVocabularyRecipeHasItsTableApartFromTheOutput) {
    const auto plan = plan_model({.like = "qwen3-248k"});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->tensors.size(), 3U + 8 * 12);
    const TensorPlan &table = find_tensor(*plan, "token_embd.weight");
    EXPECT_EQ(table.shape, (std::array<int64_t, 4>{2048, 248320, 1, 1}));
    EXPECT_EQ(bytes_of(table), 540344320U); // 515 MiB
    EXPECT_EQ(find_tensor(*plan, "output.weight").shape, table.shape);
    EXPECT_LT(bytes_of(*plan), 4'000'000'000U);
}

TEST(MakeModel, RecipeWithSharedExpertsHasTheRealShapeAndTheTypesOfAQ4KMFile) {
    const auto whole = plan_model({.like = "ernie-4.5-21b-a3b"});
    const auto part = plan_model({.like = "ernie-4.5-21b-a3b", .layers = 9});
    ASSERT_TRUE(whole && part);
    EXPECT_EQ(whole->tensors.size(), 2U + 9 + 27 * 14);
    EXPECT_EQ(part->tensors.size(), 2U + 9 + 8 * 14);
    EXPECT_EQ(find_tensor(*whole, "blk.0.ffn_down.weight").shape,
              (std::array<int64_t, 4>{12288, 2560, 1, 1}));
    for (const ModelPlan *plan : {&*whole, &*part}) { // a part has the types of the whole
        EXPECT_EQ(find_tensor(*plan, "blk.2.ffn_down_exps.weight").type, GGML_TYPE_Q6_K);
        EXPECT_EQ(find_tensor(*plan, "blk.3.ffn_down_exps.weight").type, GGML_TYPE_Q4_K);
        EXPECT_EQ(find_tensor(*plan, "blk.5.ffn_down_shexp.weight").type, GGML_TYPE_Q6_K);
        EXPECT_EQ(find_tensor(*plan, "blk.6.attn_v.weight").type, GGML_TYPE_Q4_K);
    }
    int richer = 0;
    for (const TensorPlan &tensor : whole->tensors) {
        if (tensor.name.ends_with("ffn_down_exps.weight")) {
            EXPECT_EQ(tensor.shape, (std::array<int64_t, 4>{1536, 2560, 64, 1}));
            richer += tensor.type == GGML_TYPE_Q6_K ? 1 : 0;
        } else if (tensor.name.ends_with("_exps.weight")) {
            EXPECT_EQ(tensor.shape, (std::array<int64_t, 4>{2560, 1536, 64, 1}));
            EXPECT_EQ(tensor.type, GGML_TYPE_Q4_K);
        } else if (tensor.name.ends_with("up_shexp.weight")) {
            EXPECT_EQ(tensor.shape, (std::array<int64_t, 4>{2560, 3072, 1, 1}));
        }
    }
    EXPECT_EQ(richer, 13); // layers 1 and 2, every third up to 23, four at the end
}

TEST(MakeModel, HashedRecipesHaveTablesThatHoldEveryHashsRows) {
    for (const char *like : {"tiny-hashed", "hashed-20g"}) {
        const auto plan = plan_model({.like = like});
        ASSERT_TRUE(plan);
        const auto numbers = [&plan](const std::string &name) {
            for (const auto &[key, value] : plan->keys) {
                if (key == "qwen4exp.ple." + name) {
                    return std::get<std::vector<uint64_t>>(value);
                }
            }
            return std::vector<uint64_t>{};
        };
        const std::vector<uint64_t> offsets = numbers("head_offsets");
        const std::vector<uint64_t> sizes = numbers("head_vocab_sizes");
        ASSERT_EQ(offsets.size(), sizes.size());
        ASSERT_FALSE(offsets.empty());
        for (size_t i = 1; i < offsets.size(); ++i) {
            EXPECT_EQ(offsets[i], offsets[i - 1] + sizes[i - 1]) << like;
        }
        const int64_t rows = find_tensor(*plan, "per_layer_token_embd.weight").shape[1];
        EXPECT_LE(offsets.back() + sizes.back(), static_cast<uint64_t>(rows)) << like;
    }
}

TEST(MakeModel, HashedTableOfRealSizeHasOver20GBInAModelOfUnder30) {
    const auto plan = plan_model({.like = "hashed-20g"});
    ASSERT_TRUE(plan);
    EXPECT_GE(bytes_of(find_tensor(*plan, "per_layer_token_embd.weight")), 20'000'000'000U);
    EXPECT_LT(bytes_of(*plan), 30'000'000'000U);
}

TEST(MakeModel, ProgressEndsAtTheSizeOfTheFiles) {
    const ScratchDir dir;
    uint64_t last = 0;
    uint64_t total = 0;
    const auto progress = [&](uint64_t done, uint64_t all) {
        EXPECT_GT(done, last);
        last = done;
        total = all;
        return true;
    };
    ASSERT_TRUE(make_model({.like = "tiny-qwen3moe", .shards = 4}, dir / "m", progress));
    uint64_t on_disk = 0;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path())) {
        on_disk += entry.file_size();
    }
    EXPECT_EQ(last, total);
    EXPECT_EQ(total, on_disk);
}

TEST(MakeModel, CancelledLeavesNoFileAndKeepsTheOldOne) {
    const ScratchDir dir;
    for (const int shards : {1, 3}) {
        const auto result = make_model({.like = "tiny-qwen3moe", .shards = shards}, dir / "model.gguf",
                                       [](uint64_t done, uint64_t all) { return done < all * 3 / 4; });
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, ErrorCode::Cancelled);
        EXPECT_EQ(entries(dir), 0U);
    }
    dir.write("model.gguf", "old");
    EXPECT_FALSE(
        make_model({.like = "tiny-dense"}, dir / "model.gguf", [](uint64_t, uint64_t) { return false; }));
    EXPECT_EQ(read_file(dir / "model.gguf"), "old");
    EXPECT_EQ(entries(dir), 1U);
}

TEST(MakeModel, UnknownRecipeAndTypeAreRefusedWithWhatThereIs) {
    const ScratchDir dir;
    const auto refused = [&dir](const ModelRecipe &recipe, const std::string &names) {
        const auto result = make_model(recipe, dir / "model.gguf", {});
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, ErrorCode::InvalidArgument);
        EXPECT_NE(result.error().message.find(names), std::string::npos) << result.error().message;
    };
    refused({.like = "huge"}, "tiny-qwen3moe");
    refused({.like = "tiny-qwen3moe", .type = "q4_9"}, "q4_K");
    refused({.like = "tiny-qwen3moe", .type = "i32"}, "q4_K");
    refused({.like = "tiny-dense", .type = "q4_K"}, "no experts");
    refused({.like = "tiny-gpt-oss", .type = "q4_K"}, "multiple of 256");
    refused({.like = "tiny-dense", .layers = -1}, "layers");
    refused({.like = "tiny-dense", .layers = 513}, "layers");
    refused({.like = "tiny-gemma4", .layers = 1}, "2 to");
    refused({.like = "ernie-4.5-21b-a3b", .layers = 1}, "2 to");
    refused({.like = "tiny-gemma-dense", .type = "q4_K"}, "no experts");
    refused({.like = "hashed-20g", .type = "q4_K"}, "multiple of 256");
    refused({.like = "tiny-dense", .shards = 0}, "files");
    refused({.like = "tiny-dense", .shards = 100000}, "files");
    EXPECT_EQ(entries(dir), 0U);
}

TEST(MakeModel, FailingToWriteNamesTheFileAndTheReason) {
    const ScratchDir dir;
    const std::string path = dir / "missing/model.gguf";
    const auto result = make_model({.like = "tiny-dense"}, path, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::Io);
    EXPECT_NE(result.error().message.find(path), std::string::npos) << result.error().message;
    EXPECT_NE(result.error().message.find("No such file"), std::string::npos) << result.error().message;

    const auto onto_directory = make_model({.like = "tiny-dense"}, dir.path(), {});
    ASSERT_FALSE(onto_directory);
    EXPECT_EQ(onto_directory.error().code, ErrorCode::InvalidArgument);
    EXPECT_FALSE(make_model({.like = "tiny-dense"}, "", {}));
}

TEST(MakeModel, ModelThatCannotFitIsRefusedBeforeWriting) {
    const ScratchDir dir;
    const auto stop_at_once = [](uint64_t, uint64_t) { return false; };
    const auto result =
        make_model({.like = "qwen3-30b-a3b", .layers = 512}, dir / "model.gguf", stop_at_once);
    ASSERT_FALSE(result);
    EXPECT_EQ(entries(dir), 0U);
    if (result.error().code == ErrorCode::Cancelled) {
        GTEST_SKIP() << "the disk has room for any recipe";
    }
    EXPECT_EQ(result.error().code, ErrorCode::Io);
    EXPECT_NE(result.error().message.find("free"), std::string::npos) << result.error().message;
}

TEST(MakeModel, FileSystemThatFillsUpLeavesNoFile) {
    const ScratchDir dir;
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{rlim_t{3} << 20, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto result = make_model({.like = "tiny-qwen3moe"}, dir / "model.gguf", {});
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, old_handler);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::Io);
    EXPECT_NE(result.error().message.find("bytes needed: File too large"), std::string::npos)
        << result.error().message;
    EXPECT_EQ(entries(dir), 0U);
}

TEST(MakeModel, NothingButARegularFileIsReplaced) {
    const ScratchDir dir;
    const std::string target = dir.write("target", "kept");
    const std::string link = dir / "link.gguf";
    std::filesystem::create_symlink(target, link);
    const auto made = make_model({.like = "tiny-dense"}, link, {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::InvalidArgument);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(std::filesystem::file_size(target), 4U);
}

} // namespace
} // namespace sluice::tools
