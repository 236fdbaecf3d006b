// Made models in stock llama.cpp: they load, decode, and route their tokens to many experts.
#include "tools/make_model.h"

#include "gguf/gguf_directory.h"
#include "support/temp_file.h"
#include "tools/make_model_weights.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace sluice::tools {
namespace {

using test::ScratchDir;

constexpr int vocabulary = 512; // of most tiny recipes, and the least of any

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

void expect_sane(const std::vector<float> &logits, size_t count = vocabulary) {
    ASSERT_EQ(logits.size(), count);
    EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
    const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
    EXPECT_GT(*high - *low, 0.5F);
    EXPECT_LT(*high - *low, 200.0F);
}

size_t vocabulary_of(std::string_view like) {
    return like == "tiny-vocab" ? 8192 : like == "tiny-gemma-dense" ? 2048 : vocabulary;
}

void expect_decodes(const std::string &path, std::string_view like) {
    const size_t count = vocabulary_of(like);
    Stock stock(path);
    ASSERT_NE(stock.model, nullptr);
    const std::vector<float> first = stock.decode({3});
    expect_sane(first, count);
    const std::vector<float> second = stock.decode({17, 400, 5});
    expect_sane(second, count);
    EXPECT_NE(first, second);
}

/// A prefill, then tokens one by one; a state carried along that grew or died would show.
TEST(MadeModel, HybridStaysSaneAndMindsItsTokensOverManyOfThem) {
    const ScratchDir dir;
    for (const char *like : {"tiny-nemotron-h-moe", "tiny-hashed"}) {
        SCOPED_TRACE(like);
        const std::string path = made({.like = like}, dir / "model.gguf");
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
}

class EachTinyRecipe : public testing::TestWithParam<std::string> {};

TEST_P(EachTinyRecipe, LoadsAndDecodesInStockLlama) {
    const ScratchDir dir;
    expect_decodes(made({.like = GetParam()}, dir / "model.gguf"), GetParam());
}

TEST_P(EachTinyRecipe, LoadsAndDecodesWithFewLayersAndWithMany) {
    const ScratchDir dir;
    const std::map<std::string, int> least = {{"tiny-gemma4", 2},
                                              {"tiny-gemma-dense", 2},
                                              {"tiny-nemotron-h-moe", 4},
                                              {"tiny-ernie", 2},
                                              {"tiny-hashed", 4}};
    for (const int layers : {least.contains(GetParam()) ? least.at(GetParam()) : 1, 6}) {
        const std::string path = made({.like = GetParam(), .layers = layers}, dir / "model.gguf");
        const auto directory = gguf::GgufDirectory::open(path, false, platform::system_files());
        ASSERT_TRUE(directory) << directory.error().message;
        EXPECT_EQ((*directory)->header_integer("{arch}.block_count"), layers);
        expect_decodes(path, GetParam());
    }
}

TEST_P(EachTinyRecipe, LoadsAndDecodesInSeveralFiles) {
    const ScratchDir dir;
    const std::string first = made({.like = GetParam(), .shards = 3}, dir / "model.gguf");
    EXPECT_EQ(first, dir / "model-00001-of-00003.gguf");
    EXPECT_EQ(entries(dir), 3U);
    expect_decodes(first, GetParam());
}

INSTANTIATE_TEST_SUITE_P(MadeModel, EachTinyRecipe,
                         testing::Values("tiny-qwen3moe", "tiny-mixed", "tiny-gemma4", "tiny-gemma-dense",
                                         "tiny-gpt-oss", "tiny-nemotron-h-moe", "tiny-hashed", "tiny-ernie",
                                         "tiny-vocab", "tiny-tied", "tiny-dense"),
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
        const auto directory = gguf::GgufDirectory::open(path, false, platform::system_files());
        ASSERT_TRUE(directory);
        EXPECT_EQ((*directory)->find("blk.0.ffn_up_exps.weight")->type, i);
        expect_decodes(path, "tiny-qwen3moe");
    }
}

TEST(MadeModel, ExpertsOfBlockTypesDecodeInRowsThatAreNoMultipleOf256) {
    const ScratchDir dir;
    for (const char *like : {"tiny-gemma4", "tiny-gpt-oss", "tiny-nemotron-h-moe"}) {
        for (const char *type : {"f16", "bf16", "q8_0", "q4_0", "iq4_nl", "mxfp4"}) {
            SCOPED_TRACE(std::string(like) + " " + type);
            expect_decodes(made({.like = like, .type = type}, dir / "model.gguf"), like);
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
                                                    {"tiny-qwen3moe", 2}, {"tiny-gemma4", 2},
                                                    {"tiny-gpt-oss", 2},  {"tiny-nemotron-h-moe", 4},
                                                    {"tiny-ernie", 3},    {"tiny-hashed", 4}};
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

/// Notes which rows of one weight are gathered, and what else it is used for.
struct Gathering {
    std::string table{};
    std::vector<std::vector<int32_t>> rows{}; ///< of one gather each
    size_t row_bytes = 0;
    size_t other_uses = 0;

    static bool watch(ggml_tensor *node, bool ask, void *self) {
        auto &gathering = *static_cast<Gathering *>(self);
        const auto is_table = [&gathering](const ggml_tensor *source) {
            return source != nullptr && gathering.table == source->name;
        };
        if (node->op != GGML_OP_GET_ROWS || !is_table(node->src[0])) {
            gathering.other_uses +=
                ask && std::any_of(std::begin(node->src), std::end(node->src), is_table) ? 1 : 0;
            return false;
        }
        if (!ask) {
            std::vector<int32_t> rows(static_cast<size_t>(ggml_nelements(node->src[1])));
            ggml_backend_tensor_get(node->src[1], rows.data(), 0, rows.size() * sizeof(int32_t));
            gathering.row_bytes = node->src[0]->nb[1];
            gathering.rows.push_back(std::move(rows));
        }
        return true;
    }
};

TEST(MadeModel, TablesAreOnlyGatheredFromAndFromPagesAllOver) {
    constexpr size_t page = 16384;
    const ScratchDir dir;
    const std::pair<const char *, const char *> tables[] = {
        {"tiny-gemma-dense", "per_layer_token_embd.weight"},
        {"tiny-gemma-dense", "token_embd.weight"},
        {"tiny-hashed", "per_layer_token_embd.weight"},
        {"tiny-vocab", "token_embd.weight"}};
    for (const auto &[like, table] : tables) {
        SCOPED_TRACE(std::string(like) + " " + table);
        const std::string path = made({.like = like}, dir / "model.gguf");
        Gathering gathering{.table = table};
        Stock stock(path, &Gathering::watch, &gathering);
        const auto count = static_cast<llama_token>(vocabulary_of(like));
        std::set<size_t> pages;
        for (llama_token token = 0; token < 32; ++token) {
            ASSERT_FALSE(stock.decode({token * 211 % count}).empty());
        }
        for (const std::vector<int32_t> &rows : gathering.rows) {
            for (const int32_t row : rows) {
                pages.insert(static_cast<size_t>(row) * gathering.row_bytes / page);
            }
        }
        EXPECT_EQ(gathering.rows.size(), 32U);
        EXPECT_EQ(gathering.other_uses, 0U);
        EXPECT_NE(page % gathering.row_bytes, 0U); // so that rows cross pages
        EXPECT_GT(pages.size(), 16U);
    }
}

TEST(MadeModel, HashedRowsFollowFromATokenAndTheTwoBefore) {
    const ScratchDir dir;
    const std::string path = made({.like = "tiny-hashed"}, dir / "model.gguf");
    const auto last_rows = [&path](const std::vector<llama_token> &tokens) {
        Gathering gathering{.table = "per_layer_token_embd.weight"};
        Stock stock(path, &Gathering::watch, &gathering);
        EXPECT_FALSE(stock.decode(tokens).empty());
        const std::vector<int32_t> &rows = gathering.rows.at(0);
        return std::vector<int32_t>(rows.end() - 4, rows.end());
    };
    const std::vector<int32_t> rows = last_rows({5, 6, 7, 8});
    EXPECT_EQ(rows, last_rows({9, 6, 7, 8}));
    const std::vector<int32_t> other = last_rows({5, 9, 7, 8}); // two rows are of the last two tokens only
    EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 2, other.begin()));
    EXPECT_NE(rows[2], other[2]);
    EXPECT_NE(rows[3], other[3]);
}

} // namespace
} // namespace sluice::tools
