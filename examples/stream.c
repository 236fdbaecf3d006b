/* Streams a model with llama.h: what Sluice adds are the calls that begin with sluice_.
 *   stream MODEL.gguf CACHE_MIB
 * Continues a prompt greedily on standard output and says at the end what was read. */
#include <llama.h>
#include <sluice/sluice.h>
#include <stdio.h>

static void errors_only(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int fail(const char *what) {
    fprintf(stderr, "stream: %s\n", what);
    return 1;
}

int main(int count, char **arguments) {
    if (count != 3)
        return fail("usage: stream MODEL.gguf CACHE_MIB") + 1;
    llama_log_set(errors_only, NULL);
    sluice_error error = {.size = sizeof(error)};
    sluice_options *options = sluice_options_new();
    if (sluice_options_set(options, "cache-mb", arguments[2], &error) != SLUICE_OK ||
        sluice_expect_model(arguments[1], options, &error) != SLUICE_OK)
        return fail(error.message);
    sluice_options_free(options);

    struct llama_model_params params = llama_model_default_params();
    params.load_mode = LLAMA_LOAD_MODE_NONE; /* a mapped file would be read whole */
    struct llama_model *model = llama_model_load_from_file(arguments[1], params);
    struct llama_context *context = model ? llama_init_from_model(model, llama_context_default_params()) : NULL;
    sluice_model *streamed = context ? sluice_model_open(arguments[1], &error) : NULL;
    if (streamed == NULL)
        return fail(context ? error.message : "the model cannot be loaded");

    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    struct llama_sampler *sampler = llama_sampler_init_greedy();
    llama_token tokens[16];
    int n = llama_tokenize(vocab, "Once upon a time", 16, tokens, 16, 1, 0);
    for (int left = 64; left > 0; --left, n = 1) {
        if (llama_decode(context, llama_batch_get_one(tokens, n)) != 0) {
            sluice_model_last_error(streamed, &error);
            return fail(error.message);
        }
        tokens[0] = llama_sampler_sample(sampler, context, -1);
        char piece[128];
        printf("%.*s", llama_token_to_piece(vocab, tokens[0], piece, sizeof(piece), 0, 0), piece);
    }
    sluice_stats stats = {.size = sizeof(stats)};
    sluice_model_stats(streamed, &stats, NULL);
    fprintf(stderr, "\nstream: %llu bytes were read, for %llu slices that were not in the cache\n",
            (unsigned long long)stats.bytes_read, (unsigned long long)stats.misses);
    sluice_model_close(streamed);
    llama_sampler_free(sampler);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
