// Made models in stock llama.cpp: they load, decode, and route their tokens to many experts.
#include "model/make_model.h"

#include "model/gguf_directory.h"
#include "model/make_model_weights.h"
#include "support/temp_file.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

namespace sluice::model {
namespace {

using test::ScratchDir;

constexpr int vocabulary = 512; // of every tiny recipe

struct Silence {
    Silence() {
        llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    }
} const silence;

std::string made(const ModelRecipe &recipe, const std::string &path) {
    const auto result = make_model(recipe, path, {});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or("");
}

size_t entries(const ScratchDir &dir) {
    const std::filesystem::directory_iterator files(dir.path());
    return static_cast<size_t>(std::distance(begin(files), end(files)));
}

struct ModelDeleter {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
struct ContextDeleter {
    void operator()(llama_context *context) const { llama_free(context); }
};

/// A model in stock llama.cpp, all in memory.
struct Stock {
    std::unique_ptr<llama_model, ModelDeleter> model;
    std::unique_ptr<llama_context, ContextDeleter> context;

    explicit Stock(const std::string &path, ggml_backend_sched_eval_callback watch = nullptr,
                   void *watcher = nullptr) {
        llama_model_params model_params = llama_model_default_params();
        model_params.n_gpu_layers = 0;
        model.reset(llama_model_load_from_file(path.c_str(), model_params));
        if (!model) {
            return;
        }
        llama_context_params params = llama_context_default_params();
        params.n_ctx = 256;
        params.n_threads = 1;
        params.n_threads_batch = 1;
        params.cb_eval = watch;
        params.cb_eval_user_data = watcher;
        context.reset(llama_init_from_model(model.get(), params));
    }

    /// Logits after the last of `tokens`; empty if decoding failed.
    std::vector<float> decode(std::vector<llama_token> tokens) {
        if (!context ||
            llama_decode(context.get(),
                         llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))) != 0) {
            return {};
        }
        const float *logits = llama_get_logits_ith(context.get(), -1);
        return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model.get()))};
    }
};

void expect_sane(const std::vector<float> &logits) {
    ASSERT_EQ(logits.size(), static_cast<size_t>(vocabulary));
    EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
    const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
    EXPECT_GT(*high - *low, 0.5F);
    EXPECT_LT(*high - *low, 200.0F);
}

void expect_decodes(const std::string &path) {
    Stock stock(path);
    ASSERT_NE(stock.model, nullptr);
    const std::vector<float> first = stock.decode({3});
    expect_sane(first);
    const std::vector<float> second = stock.decode({17, 400, 5});
    expect_sane(second);
    EXPECT_NE(first, second);
}

/// A prefill, then tokens one by one; a state carried along that grew or died would show.
TEST(MadeModel, HybridStaysSaneAndMindsItsTokensOverManyOfThem) {
    const ScratchDir dir;
    const std::string path = made({.like = "tiny-nemotron-h-moe"}, dir / "model.gguf");
    Stock stock(path);
    Stock other(path);
    ASSERT_FALSE(stock.decode({7, 8, 9, 10, 11}).empty());
    ASSERT_FALSE(other.decode({7, 300, 9, 10, 11}).empty()); // one token of the past differs
    std::vector<float> before;
    for (llama_token i = 0; i < 40; ++i) {
        const std::vector<float> logits = stock.decode({i * 29 % vocabulary});
        expect_sane(logits);
        EXPECT_NE(logits, before) << i;
        EXPECT_NE(logits, other.decode({i * 29 % vocabulary})) << i;
        before = logits;
    }
}

class EachTinyRecipe : public testing::TestWithParam<std::string> {};

TEST_P(EachTinyRecipe, LoadsAndDecodesInStockLlama) {
    const ScratchDir dir;
    expect_decodes(made({.like = GetParam()}, dir / "model.gguf"));
}

TEST_P(EachTinyRecipe, LoadsAndDecodesWithFewLayersAndWithMany) {
    const ScratchDir dir;
    const int least = GetParam() == "tiny-gemma4" ? 2 : GetParam() == "tiny-nemotron-h-moe" ? 4 : 1;
    for (const int layers : {least, 6}) {
        const std::string path = made({.like = GetParam(), .layers = layers}, dir / "model.gguf");
        const auto directory = GgufDirectory::open(path, false, storage::system_files());
        ASSERT_TRUE(directory) << directory.error().message;
        EXPECT_EQ((*directory)->header_integer("{arch}.block_count"), layers);
        expect_decodes(path);
    }
}

TEST_P(EachTinyRecipe, LoadsAndDecodesInSeveralFiles) {
    const ScratchDir dir;
    const std::string first = made({.like = GetParam(), .shards = 3}, dir / "model.gguf");
    EXPECT_EQ(first, dir / "model-00001-of-00003.gguf");
    EXPECT_EQ(entries(dir), 3U);
    expect_decodes(first);
}

INSTANTIATE_TEST_SUITE_P(MadeModel, EachTinyRecipe,
                         testing::Values("tiny-qwen3moe", "tiny-mixed", "tiny-gemma4", "tiny-gpt-oss",
                                         "tiny-nemotron-h-moe", "tiny-tied", "tiny-dense"),
                         [](const auto &instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(MadeModel, ExpertsOfEveryTypeDecodeInStockLlama) {
    const ScratchDir dir;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const char *type = ggml_type_name(static_cast<ggml_type>(i));
        if (type == nullptr || !weight_type(type)) {
            continue;
        }
        SCOPED_TRACE(type);
        const std::string path =
            made({.like = "tiny-qwen3moe", .layers = 2, .type = type}, dir / "model.gguf");
        const auto directory = GgufDirectory::open(path, false, storage::system_files());
        ASSERT_TRUE(directory);
        EXPECT_EQ((*directory)->find("blk.0.ffn_up_exps.weight")->type, i);
        expect_decodes(path);
    }
}

TEST(MadeModel, ExpertsOfBlockTypesDecodeInRowsThatAreNoMultipleOf256) {
    const ScratchDir dir;
    for (const char *like : {"tiny-gemma4", "tiny-gpt-oss", "tiny-nemotron-h-moe"}) {
        for (const char *type : {"f16", "bf16", "q8_0", "q4_0", "iq4_nl", "mxfp4"}) {
            SCOPED_TRACE(std::string(like) + " " + type);
            expect_decodes(made({.like = like, .type = type}, dir / "model.gguf"));
        }
    }
}

/// Notes which experts the tokens were given.
struct Routing {
    std::set<std::vector<int32_t>> choices;

    static bool watch(ggml_tensor *node, bool ask, void *self) {
        if (node->op != GGML_OP_MUL_MAT_ID) {
            return false;
        }
        auto &choices = static_cast<Routing *>(self)->choices;
        const ggml_tensor *ids = node->src[2];
        for (int64_t token = 0; !ask && token < ids->ne[1]; ++token) {
            std::vector<int32_t> experts(static_cast<size_t>(ids->ne[0]));
            ggml_backend_tensor_get(ids, experts.data(), static_cast<size_t>(token) * ids->nb[1],
                                    experts.size() * sizeof(int32_t));
            choices.insert(experts);
        }
        return true;
    }
};

TEST(MadeModel, DifferentTokensAreRoutedToDifferentExperts) {
    const ScratchDir dir;
    const std::pair<const char *, int> recipes[] = {// with two layers of experts
                                                    {"tiny-qwen3moe", 2},
                                                    {"tiny-gemma4", 2},
                                                    {"tiny-gpt-oss", 2},
                                                    {"tiny-nemotron-h-moe", 4}};
    for (const auto &[like, layers] : recipes) {
        const std::string path = made({.like = like, .layers = layers}, dir / "model.gguf");
        Routing routing;
        Stock stock(path, &Routing::watch, &routing);
        std::set<int32_t> used;
        for (llama_token token = 0; token < 32; ++token) {
            ASSERT_FALSE(stock.decode({token * 13}).empty());
        }
        for (const auto &choice : routing.choices) {
            used.insert(choice.begin(), choice.end());
        }
        EXPECT_GT(routing.choices.size(), 48U) << like;
        EXPECT_GE(used.size(), 15U) << like;
    }
}

} // namespace
} // namespace sluice::model
