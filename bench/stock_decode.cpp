// Stock llama.cpp alone, decoding one token at a time. Links nothing of Sluice. Prints one JSON object.
//
//   stock_decode MODEL mmap|none THREADS PROMPT_TOKENS TOKENS repack|no-repack|plain-experts
//
// plain-experts: dense weights repacked, experts in the file's layout, as a streamed run has them.

#include "bench_prompt.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "llama.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 7) {
        std::fprintf(
            stderr,
            "usage: stock_decode MODEL mmap|none THREADS PROMPT TOKENS repack|no-repack|plain-experts\n");
        return 2;
    }
    const int threads = std::atoi(argv[3]);
    const auto prompt = static_cast<size_t>(std::atoi(argv[4]));
    const int count = std::atoi(argv[5]);
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();

    const auto load_start = Clock::now();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    model_params.load_mode = std::strcmp(argv[2], "mmap") == 0 ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    model_params.use_extra_bufts = std::strcmp(argv[6], "no-repack") != 0;
    // A type of its own: the loader reads an override to the CPU type itself as leave to repack.
    ggml_backend_buffer_type plain = *ggml_backend_cpu_buffer_type();
    const llama_model_tensor_buft_override overrides[] = {{"_(ch)?exps\\.weight", &plain},
                                                          {nullptr, nullptr}};
    if (std::strcmp(argv[6], "plain-experts") == 0) {
        model_params.tensor_buft_overrides = overrides;
    }
    llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (model == nullptr) {
        std::fprintf(stderr, "stock_decode: cannot load %s\n", argv[1]);
        return 1;
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 1024;
    params.n_batch = 512;
    params.n_ubatch = 512;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    llama_context *context = llama_init_from_model(model, params);
    if (context == nullptr) {
        return 1;
    }
    ggml_threadpool_params pool_params = ggml_threadpool_params_default(threads);
    ggml_threadpool *pool = ggml_threadpool_new(&pool_params);
    llama_attach_threadpool(context, pool, pool);
    nlohmann::json result;
    result["load_s"] = seconds_since(load_start);

    const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
    std::vector<int32_t> tokens = sluice::bench::prompt_tokens(prompt, vocabulary);
    std::vector<double> token_ms;
    // Twice the same: the first pass warms caches up, the second is measured.
    for (int pass = 0; pass < 2; ++pass) {
        llama_memory_clear(llama_get_memory(context), true);
        token_ms.clear();
        const auto prefill_start = Clock::now();
        if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))) !=
            0) {
            return 1;
        }
        result["prefill_s"] = seconds_since(prefill_start);
        for (int i = 0; i < count; ++i) {
            const auto start = Clock::now();
            int32_t token = sluice::bench::next_token(i, vocabulary);
            if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) {
                return 1;
            }
            token_ms.push_back(seconds_since(start) * 1e3);
        }
    }
    result["token_ms"] = token_ms;
    result["peak_bytes"] = sluice::bench::peak_resident_bytes();
    std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
    std::_Exit(0); // freeing gigabytes is not what is measured
}
