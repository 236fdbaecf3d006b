#include "support/gate.h"

#include "residency/row_source.h"
#include "residency/slot_plan.h"
#include "session/model_state.h"
#include "support/gate_prompt.h"
#include "support/temp_file.h"
#include "tools/make_model.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

namespace sluice::test {

namespace {

uint64_t minimum_or_set(Model &model, CacheSize size) {
    // The graphs of a first context tell which banks go together; the cache made for it is not used.
    auto session = Session::create(model, {.context_tokens = 64, .ubatch_tokens = 8, .threads = 1});
    EXPECT_TRUE(session) << session.error().message;
    if (!session) {
        return 0;
    }
    const ExpertStats experts = session->stats().experts;
    return size == CacheSize::Minimum
               ? experts.cache_minimum_bytes
               : std::max(experts.cache_minimum_bytes, experts.token_working_set_bytes);
}

bool decode_and_keep(Session &session, std::span<const Token> tokens, GateRun &run) {
    if (auto decoded = session.decode(tokens); !decoded) {
        ADD_FAILURE() << decoded.error().message;
        return false;
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
        const auto logits = session.logits_at(i);
        run.logits.insert(run.logits.end(), logits.begin(), logits.end());
    }
    return true;
}

bool run_prompt(Session &session, const std::function<void()> &before_decode, const GateConfig &config,
                int which, GateRun &run) {
    const std::vector<Token> prompt = gate_prompt(which, config.prompt, run.vocabulary);
    for (size_t begin = 0; begin < prompt.size(); begin += config.ubatch) {
        const size_t count = std::min<size_t>(config.ubatch, prompt.size() - begin);
        before_decode();
        if (!decode_and_keep(session, std::span(prompt).subspan(begin, count), run)) {
            return false;
        }
    }
    for (int i = 0; i < config.drawn; ++i) {
        const Token token = greedy(run.logits.data() + run.logits.size() - run.vocabulary, run.vocabulary);
        before_decode();
        if (!decode_and_keep(session, {&token, 1}, run)) {
            return false;
        }
    }
    return true;
}

GateRun run_prompts(Model &model, const GateConfig &config) {
    GateRun run;
    auto session = Session::create(
        model,
        {.context_tokens = gate_context(config.prompt + static_cast<size_t>(config.drawn), 1, 1, {}).n_ctx,
         .ubatch_tokens = config.ubatch,
         .threads = config.threads,
         .try_fewer_threads = config.decides != Decides::Gate,
         .restless = config.decides == Decides::ItselfRestless,
         .all_logits = true});
    if (!session) {
        ADD_FAILURE() << session.error().message;
        return run;
    }
    run.vocabulary = session->vocab_size();
    size_t decodes = 0;
    const auto before_decode = [&] {
        if (config.before_decode) {
            config.before_decode(model, decodes++);
        }
    };
    for (int which = 0; which < config.prompts; ++which) {
        session->reset();
        if (!run_prompt(*session, before_decode, config, which, run)) {
            break;
        }
    }
    run.stats = session->stats();
    return run;
}

/// Batches that a session can't make go to a context of llama.cpp's own on the same model.
void run_batches(Model &model, const GateConfig &config, GateRun &run) {
    auto session = Session::create(model, {.context_tokens = 256, .threads = 1}); // brings the cache about
    if (!session) {
        ADD_FAILURE() << session.error().message;
        return;
    }
    run.vocabulary = session->vocab_size();
    const std::unique_ptr<llama_context, decltype([](llama_context *context) { llama_free(context); })>
        context(llama_init_from_model(model.state().llama.get(), gate_context(config.prompt, config.ubatch,
                                                                              config.threads, config.batch)));
    ASSERT_NE(context, nullptr);
    EXPECT_TRUE(config.batch == BatchKind::Sequences
                    ? decode_sequences(context.get(), run.vocabulary, run.logits)
                    : decode_embeddings(context.get(), run.vocabulary, run.logits));
    run.stats = session->stats();
}

void expect_experts_streamed(const GateConfig &config, const GateRun &streamed) {
    const ExpertStats &experts = streamed.stats.experts;
    EXPECT_GT(streamed.info.expert_banks, 0U) << "nothing was streamed, so nothing was proven";
    EXPECT_GT(experts.misses, 0U);
    EXPECT_GT(experts.bytes_read, 0U);
    EXPECT_EQ(experts.read_errors, 0U);
    EXPECT_EQ(experts.materialized, 0U);
    if (config.cache == CacheSize::Everything && !config.before_decode) {
        EXPECT_EQ(experts.evictions, 0U);
        EXPECT_EQ(experts.rereads, 0U);
    } else if (config.cache == CacheSize::Minimum && experts.cache_bytes < streamed.info.streamed_bytes) {
        // (A model whose one expert layer uses all its experts has nothing to evict.)
        EXPECT_GT(experts.evictions, 0U) << "a cache of the minimum must evict";
        EXPECT_GT(experts.rereads, 0U);
    }
}

void expect_rows_streamed(const GateConfig &config, const GateRun &streamed) {
    const RowStats &rows = streamed.stats.rows;
    EXPECT_GT(rows.table_bytes, 0U) << "no table qualified, so nothing was proven";
    EXPECT_GT(rows.rows, 0U);
    EXPECT_GT(rows.reads, 0U);
    EXPECT_GT(rows.bytes_read, 0U);
    EXPECT_EQ(rows.read_errors, 0U);
    EXPECT_LE(rows.resident_bytes, *config.row_window);
    if (*config.row_window < 2 * residency::slab_bytes()) {
        EXPECT_GT(rows.evictions, 0U) << "a window of one slab must give rows back";
    }
}

} // namespace

std::vector<float> run_stock(const GateConfig &config) {
    const std::string out = scratch_path("stock.logits");
    const std::string command =
        fmt::format("'{}' '{}' '{}' {} {} {} {} {} {} {}", SLUICE_STOCK_LOGITS, config.model, out,
                    config.threads, config.ubatch, config.prompt, config.drawn, config.prompts,
                    config.repack_experts ? "repack-all"
                    : config.repack       ? "repack"
                                          : "no-repack",
                    batch_name(config.batch));
    if (const int code = std::system(command.c_str()); code != 0) {
        ADD_FAILURE() << "the reference failed with " << code << ": " << command;
        return {};
    }
    std::vector<float> logits(std::filesystem::file_size(out) / sizeof(float));
    std::ifstream file(out, std::ios::binary);
    file.read(reinterpret_cast<char *>(logits.data()),
              static_cast<std::streamsize>(logits.size() * sizeof(float)));
    std::filesystem::remove(out);
    return logits;
}

uint64_t cache_bytes(const std::string &model, CacheSize size, bool direct) {
    auto loaded = Model::load(
        {.path = model, .stream = StreamMode::Force, .cache_bytes = uint64_t{1} << 40, .direct = direct});
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded || size == CacheSize::Everything) {
        return uint64_t{1} << 40;
    }
    return minimum_or_set(*loaded, size);
}

ModelOptions gate_options(const GateConfig &config) {
    const bool given = config.decides == Decides::Gate;
    return {.path = config.model,
            .stream = StreamMode::Force,
            .cache_policy = config.policy,
            .dense_weights = config.dense,
            .row_stream = config.row_window.has_value(),
            .row_window_bytes = config.row_window.value_or(residency::slab_bytes()),
            .io_depth = given ? 4 : 0,
            .io_threads = given ? 4 : 0,
            .lookahead = given ? std::optional(config.lookahead) : std::nullopt,
            .direct = config.direct,
            .repack = config.repack,
            .repack_experts = config.repack_experts};
}

GateRun run_streamed(const GateConfig &config) {
    GateRun run;
    ModelOptions options = gate_options(config);
    options.cache_bytes = cache_bytes(config.model, config.cache, config.direct);
    auto model = Model::load(options);
    if (!model) {
        ADD_FAILURE() << model.error().message;
        return run;
    }
    if (config.batch == BatchKind::Tokens) {
        run = run_prompts(*model, config);
    } else {
        run_batches(*model, config, run);
    }
    run.info = model->info();
    run.row_tables = model->row_tables();
    return run;
}

std::vector<float> run_session(Model &model, const GateConfig &config) {
    return run_prompts(model, config).logits;
}

void expect_same(const GateConfig &config, const std::vector<float> &stock, const GateRun &streamed) {
    EXPECT_FALSE(stock.empty());
    EXPECT_EQ(stock.size(), streamed.logits.size());
    if (stock.size() == streamed.logits.size() && !stock.empty()) {
        const bool equal =
            std::memcmp(stock.data(), streamed.logits.data(), stock.size() * sizeof(float)) == 0;
        size_t first = 0;
        while (!equal && first < stock.size() &&
               std::memcmp(&stock[first], &streamed.logits[first], sizeof(float)) == 0) {
            ++first;
        }
        EXPECT_TRUE(equal) << "first difference at logit " << first % streamed.vocabulary << " of token "
                           << first / streamed.vocabulary << ": stock " << stock[first] << ", streamed "
                           << streamed.logits[first];
    }
    EXPECT_TRUE(streamed.info.streaming);
    if (config.experts) {
        expect_experts_streamed(config, streamed);
    }
    const bool maps = config.dense == DenseWeights::Mmap || config.dense == DenseWeights::Warm;
    EXPECT_EQ(streamed.info.mapped_bytes > 0, maps);
    if (config.row_window) {
        expect_rows_streamed(config, streamed);
    }
}

GateRun expect_identical(const GateConfig &config) {
    SCOPED_TRACE(config.model);
    const std::vector<float> stock = run_stock(config);
    GateRun streamed = run_streamed(config);
    expect_same(config, stock, streamed);
    return streamed;
}

std::string scratch_path(const std::string &name) {
    static const ScratchDir folder; // removed when the test process ends
    return folder / name;
}

std::string tiny_model(const std::string &recipe, const std::string &type, int shards) {
    const std::string prefix = fmt::format("{}-{}-{}", recipe, type.empty() ? "own" : type, shards);
    const auto made = tools::make_model({.like = recipe, .type = type, .shards = shards},
                                        scratch_path(prefix + ".gguf"), {});
    EXPECT_TRUE(made) << made.error().message;
    return made.value_or("");
}

std::string arch_models() {
    return SLUICE_ARCH_MODELS;
}

std::string arch_model(const std::string &name) {
    return fmt::format("{}/{}.gguf", SLUICE_ARCH_MODELS, name);
}

} // namespace sluice::test
