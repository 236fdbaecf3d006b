// A program of its own that loads llama.cpp's libraries while it runs, visible to nobody else, as Node does
// with an addon. Prints each drawn token and a digest of its logits.
//   plugin_host LIBGGML LIBLLAMA LOAD_MODE MODEL...   LOAD_MODE: none, mmap, or warm-up, which is none and a
//   warm-up
#include "ggml-backend.h"
#include "llama.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <vector>

namespace {

void *open_library(const std::string &path) {
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        std::exit(1);
    }
    return library;
}

/// `name` in `library`, as the function that its header declares.
template <typename Function>
Function *function(void *library, const char *name, Function *) {
    void *address = ::dlsym(library, name);
    if (address == nullptr) {
        std::fprintf(stderr, "%s is not there\n", name);
        std::exit(1);
    }
    return reinterpret_cast<Function *>(address);
}
#define FUNCTION(library, name) function(library, #name, static_cast<decltype(&name)>(nullptr))

/// Of all bits: FNV-1a.
uint64_t digest(const float *values, size_t count) {
    uint64_t sum = 14695981039346656037U;
    const auto *bytes = reinterpret_cast<const unsigned char *>(values);
    for (size_t i = 0; i < count * sizeof(float); ++i) {
        sum = (sum ^ bytes[i]) * 1099511628211U;
    }
    return sum;
}

void quiet(ggml_log_level level, const char *text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        std::fputs(text, stderr);
    }
}

class Host {
public:
    Host(const std::string &ggml, const std::string &llama)
        : ggml_(open_library(ggml)), llama_(open_library(llama)) {
        FUNCTION(llama_, llama_log_set)(quiet, nullptr);
        FUNCTION(ggml_, ggml_backend_load_all_from_path)
        (std::filesystem::path(ggml).parent_path().c_str());
    }

    llama_model *load(const char *path, llama_load_mode mode) {
        llama_model_params params = FUNCTION(llama_, llama_model_default_params)();
        params.n_gpu_layers = 0;
        params.load_mode = mode;
        params.use_extra_bufts = false;
        return FUNCTION(llama_, llama_model_load_from_file)(path, params);
    }

    /// A prompt of a few tokens, then drawn ones. False if computing failed.
    bool run(llama_model *model, bool warm_up) {
        llama_context_params params = FUNCTION(llama_, llama_context_default_params)();
        params.n_ctx = 128;
        params.n_threads = params.n_threads_batch = 2;
        llama_context *context = FUNCTION(llama_, llama_init_from_model)(model, params);
        if (context == nullptr) {
            return false;
        }
        const llama_vocab *vocabulary = FUNCTION(llama_, llama_model_get_vocab)(model);
        const auto size = static_cast<size_t>(FUNCTION(llama_, llama_vocab_n_tokens)(vocabulary));
        std::vector<llama_token> tokens;
        for (int i = 1; i <= 12; ++i) {
            tokens.push_back(static_cast<llama_token>(static_cast<size_t>(i) * 7919 % size));
        }
        bool decoded = !warm_up || warms_up(context, tokens.front());
        for (int drawn = 0; drawn < 16 && decoded; ++drawn) {
            const auto batch =
                FUNCTION(llama_, llama_batch_get_one)(tokens.data(), static_cast<int32_t>(tokens.size()));
            decoded = FUNCTION(llama_, llama_decode)(context, batch) == 0;
            if (decoded) {
                const float *logits = FUNCTION(llama_, llama_get_logits_ith)(context, -1);
                const auto token = static_cast<llama_token>(std::max_element(logits, logits + size) - logits);
                std::printf("%d %016llx\n", token, static_cast<unsigned long long>(digest(logits, size)));
                tokens = {token};
            }
        }
        FUNCTION(llama_, llama_free)(context);
        return decoded;
    }

// Deprecated, and what stock programs do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    void set_warmup(llama_context *context, bool on) {
        FUNCTION(llama_, llama_set_warmup)(context, on);
    }
#pragma GCC diagnostic pop

    bool warms_up(llama_context *context, llama_token token) {
        set_warmup(context, true);
        const bool decoded =
            FUNCTION(llama_, llama_decode)(context, FUNCTION(llama_, llama_batch_get_one)(&token, 1)) == 0;
        FUNCTION(llama_, llama_memory_clear)(FUNCTION(llama_, llama_get_memory)(context), true);
        set_warmup(context, false);
        return decoded;
    }

    void free(llama_model *model) {
        FUNCTION(llama_, llama_model_free)(model);
    }

private:
    void *ggml_;
    void *llama_;
};

} // namespace

int main(int count, char **arguments) {
    if (count < 5) {
        std::fprintf(stderr, "usage: plugin_host LIBGGML LIBLLAMA none|mmap|warm-up MODEL...\n");
        return 2;
    }
    Host host(arguments[1], arguments[2]);
    const std::string mode = arguments[3];
    std::vector<llama_model *> models;
    for (int i = 4; i < count; ++i) {
        models.push_back(
            host.load(arguments[i], mode == "mmap" ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE));
    }
    bool done = true;
    for (llama_model *model : models) {
        done = model != nullptr && host.run(model, mode == "warm-up") && done;
    }
    for (llama_model *model : models) {
        if (model != nullptr) {
            host.free(model);
        }
    }
    return done ? 0 : 1;
}
