// The reference side of the gates: stock llama.cpp alone, in its own process. Links nothing of Sluice and
// never registers its device. Writes every logit of every prompt token and of every greedily drawn one as raw
// floats.
//
//   stock_logits MODEL OUT THREADS UBATCH PROMPT_TOKENS DRAWN_TOKENS PROMPTS repack|repack-all|no-repack
//   BATCH
// (BATCH: one of kBatchNames)

#include "support/gate_batch.h"
#include "support/gate_contexts.h"
#include "support/gate_prompt.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

/// Streamed experts are not repacked unless asked for (repack-all). The reference keeps them in a plain host
/// buffer too: a type of its own, since the loader reads an override to the CPU type itself as leave to
/// repack.
ggml_backend_buffer_type plain_host_type() {
    ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    return type;
}

struct Arguments {
    std::string model;
    std::string out;
    int threads = 1;
    int ubatch = 64;
    size_t prompt = 1;
    int drawn = 1;
    int prompts = 1;
    bool repack = true;
    bool repack_experts = false;
    sluice::test::BatchKind kind = sluice::test::BatchKind::Tokens;
};

bool decode(llama_context *context, const std::vector<int32_t> &tokens, size_t begin, size_t count,
            size_t vocabulary, std::FILE *out) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(count), 0, 1);
    for (size_t i = 0; i < count; ++i) {
        batch.token[i] = tokens[begin + i];
        batch.pos[i] = static_cast<llama_pos>(begin + i);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = static_cast<int32_t>(count);
    const int code = llama_decode(context, batch);
    llama_batch_free(batch);
    if (code != 0) {
        std::fprintf(stderr, "stock_logits: llama_decode returned %d\n", code);
        return false;
    }
    for (size_t i = 0; i < count; ++i) {
        const float *logits = llama_get_logits_ith(context, static_cast<int32_t>(i));
        if (std::fwrite(logits, sizeof(float), vocabulary, out) != vocabulary) {
            return false;
        }
    }
    return true;
}

bool run(const Arguments &arguments, llama_context *context, size_t vocabulary, std::FILE *out) {
    for (int which = 0; which < arguments.prompts; ++which) {
        llama_memory_clear(llama_get_memory(context), true);
        std::vector<int32_t> tokens = sluice::test::gate_prompt(which, arguments.prompt, vocabulary);
        const auto step = static_cast<size_t>(arguments.ubatch);
        for (size_t begin = 0; begin < arguments.prompt; begin += step) {
            if (!decode(context, tokens, begin, std::min(step, arguments.prompt - begin), vocabulary, out)) {
                return false;
            }
        }
        for (int i = 0; i < arguments.drawn; ++i) {
            tokens.push_back(sluice::test::greedy(llama_get_logits_ith(context, -1), vocabulary));
            if (!decode(context, tokens, tokens.size() - 1, 1, vocabulary, out)) {
                return false;
            }
        }
    }
    return true;
}

bool run_batches(const Arguments &arguments, llama_context *context, size_t vocabulary, std::FILE *out) {
    using sluice::test::BatchKind;
    std::vector<float> logits;
    const bool decoded =
        arguments.kind == BatchKind::Sequences ? sluice::test::decode_sequences(context, vocabulary, logits)
        : arguments.kind == BatchKind::Embeddings
            ? sluice::test::decode_embeddings(context, vocabulary, logits)
            : sluice::test::decode_in_contexts(arguments.kind,
                                               const_cast<llama_model *>(llama_get_model(context)),
                                               arguments.threads, logits);
    return decoded && std::fwrite(logits.data(), sizeof(float), logits.size(), out) == logits.size();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 10) {
        std::fprintf(
            stderr,
            "usage: stock_logits MODEL OUT THREADS UBATCH PROMPT DRAWN PROMPTS repack|repack-all|no-repack "
            "BATCH\n");
        return 2;
    }
    const Arguments arguments{argv[1],
                              argv[2],
                              std::atoi(argv[3]),
                              std::atoi(argv[4]),
                              static_cast<size_t>(std::atoi(argv[5])),
                              std::atoi(argv[6]),
                              std::atoi(argv[7]),
                              std::strcmp(argv[8], "no-repack") != 0,
                              std::strcmp(argv[8], "repack-all") == 0,
                              sluice::test::batch_kind(argv[9])};
    llama_log_set(
        [](ggml_log_level level, const char *text, void *) {
            if (level == GGML_LOG_LEVEL_ERROR) {
                std::fputs(text, stderr);
            }
        },
        nullptr);
    llama_backend_init();

    ggml_backend_buffer_type plain = plain_host_type();
    const llama_model_tensor_buft_override overrides[] = {{"_(ch)?exps\\.weight", &plain},
                                                          {nullptr, nullptr}};
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    model_params.load_mode = LLAMA_LOAD_MODE_NONE;
    model_params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    model_params.use_extra_bufts = arguments.repack;
    model_params.tensor_buft_overrides = arguments.repack && !arguments.repack_experts ? overrides : nullptr;
    llama_model *model = llama_model_load_from_file(arguments.model.c_str(), model_params);
    if (model == nullptr) {
        return 1;
    }
    const llama_context_params context_params = sluice::test::gate_context(
        arguments.prompt + static_cast<size_t>(arguments.drawn), static_cast<uint32_t>(arguments.ubatch),
        arguments.threads, arguments.kind);
    llama_context *context = llama_init_from_model(model, context_params);
    std::FILE *out = std::fopen(arguments.out.c_str(), "wb");
    if (context == nullptr || out == nullptr) {
        return 1;
    }
    const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
    const bool computed = arguments.kind == sluice::test::BatchKind::Tokens
                              ? run(arguments, context, vocabulary, out)
                              : run_batches(arguments, context, vocabulary, out);
    const bool ok = computed && std::fclose(out) == 0;
    llama_free(context);
    llama_model_free(model);
    return ok ? 0 : 1;
}
