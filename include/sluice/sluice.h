/* Sluice's C interface: streaming beneath llama.h.
 *
 * An application that uses llama.cpp announces a model file and then loads it with
 * llama_model_load_from_file() as always: the experts stay in the file and flow in as tokens need them, for
 * every context on that model. Everything else is llama.h's: contexts, batches, sampling.
 *
 * What this interface does not do: load models, tokenize, sample, serve. Nothing in it prints; what the
 * library has to say goes to the sink of sluice_set_notice_sink(), or to standard error if there is none.
 *
 * Sizes are in bytes unless named otherwise. Functions are thread-safe unless said otherwise; a handle is
 * used by one thread at a time. Strings are UTF-8 and end with a zero byte. Strings that are returned are the
 * library's and live as long as the process, or as the handle that they came from.
 *
 * Structs begin with their size, which the caller sets to sizeof: the library fills in what fits, so an
 * application that was built with an older header goes on working.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && !defined(SLUICE_STATIC)
#define SLUICE_API __declspec(dllimport)
#elif defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

/* Changes when something here is taken away or means something else. */
#define SLUICE_API_VERSION 1

/* The version that the library was built with; compare it with the macro. */
SLUICE_API int sluice_api_version(void);

/* Such as "0.1.0". */
SLUICE_API const char *sluice_version(void);

/* -- errors
 * --------------------------------------------------------------------------------------------------- */

typedef enum sluice_code {
    SLUICE_OK = 0,
    SLUICE_INVALID_ARGUMENT = 1,
    SLUICE_NOT_FOUND = 2,
    SLUICE_PERMISSION_DENIED = 3,
    SLUICE_INVALID_FORMAT = 4, /* a file is not what it should be, or is cut short */
    SLUICE_IO = 5,
    SLUICE_OUT_OF_MEMORY = 6, /* refused by the system, or beyond the ceiling asked for */
    SLUICE_UNSUPPORTED = 7,
    SLUICE_CANCELLED = 8,
    SLUICE_INTERNAL = 9
} sluice_code;

/* What went wrong in one call. `message` is one sentence, cut off if need be. */
typedef struct sluice_error {
    size_t size;
    sluice_code code;
    char message[1024];
} sluice_error;

/* Every function that returns a sluice_code fills `error` in, unless that is NULL, when it does not return
 * SLUICE_OK. */

/* Told each sentence that the library has to say, one at a time, on any thread. It must not call the library.
 */
typedef void (*sluice_notice_sink)(const char *sentence, void *user);

/* NULL: standard error again. `user` must live until the sink is replaced. */
SLUICE_API void sluice_set_notice_sink(sluice_notice_sink sink, void *user);

/* -- options
 * -------------------------------------------------------------------------------------------------- */

/* What is asked of streaming. The names are those of the command line, without dashes: "cache-mb", "ram-mb",
 * "dense-weights", ... Values are text. */
typedef struct sluice_options sluice_options;

/* All options at their defaults. NULL if there is no memory. To be freed by the caller. */
SLUICE_API sluice_options *sluice_options_new(void);
SLUICE_API void sluice_options_free(sluice_options *options);

/* Errors: SLUICE_INVALID_ARGUMENT, naming option and value; the options are as they were then. */
SLUICE_API sluice_code sluice_options_set(sluice_options *options, const char *name, const char *value,
                                          sluice_error *error);

/* What there is to set. */
typedef struct sluice_option_info {
    size_t size;
    const char *name;
    const char *value; /* what it takes, for people; "" for a switch, which is "on" or "off" */
    const char *help;  /* one line */
    int is_lossy;      /* the text becomes another than the model's */
} sluice_option_info;

SLUICE_API size_t sluice_option_count(void);
/* SLUICE_INVALID_ARGUMENT if there is no option of that index. */
SLUICE_API sluice_code sluice_option_describe(size_t index, sluice_option_info *info, sluice_error *error);

/* -- planning
 * ------------------------------------------------------------------------------------------------- */

/* A context that is planned for. 0 in a field: the library's choice, which the plan tells. */
typedef struct sluice_context_plan {
    size_t size;
    uint32_t n_ctx;    /* tokens */
    uint32_t n_ubatch; /* tokens */
    int32_t n_threads;
} sluice_context_plan;

/* What a run would take and do. */
typedef struct sluice_plan {
    size_t size;
    int streams;           /* 0: the model is better held in memory; load it without announcing it */
    uint64_t cache_bytes;  /* for experts */
    uint64_t peak_bytes;   /* that the process will hold at most */
    uint64_t budget_bytes; /* what that must stay under; 0: it could not be measured */
    uint64_t expert_bytes; /* of all experts */
    uint64_t token_bytes;  /* of the experts that one token touches */
    uint32_t n_ctx;        /* what was chosen where `context` had 0 */
    uint32_t n_ubatch;
    int32_t n_threads;
} sluice_plan;

/* Reads the file's header and the machine's facts, tries the model out on paper, and decides what `options`
 * leave open: they are complete afterwards. Allocates no weights; takes about as long as reading the
 * vocabulary. On one thread at a time, and while that thread loads no model. `context` may be NULL: all is
 * the library's choice. Errors: SLUICE_OUT_OF_MEMORY if even the least does not fit, with what is missing,
 * and those of opening the file. */
SLUICE_API sluice_code sluice_plan_run(const char *path, sluice_options *options,
                                       const sluice_context_plan *context, sluice_plan *plan,
                                       sluice_error *error);

/* -- models
 * --------------------------------------------------------------------------------------------------- */

/* Whoever loads `path` in this process from now on, with llama_model_load_from_file(), gets its experts
 * streamed as `options` say (NULL: the defaults). Load with use_mmap off in the spelling of your llama.h
 * (load mode none or direct I/O), or all of the file is read. The options are copied. Once per file is
 * enough; the last call counts. Errors: SLUICE_NOT_FOUND, SLUICE_INVALID_FORMAT, SLUICE_UNSUPPORTED. */
SLUICE_API sluice_code sluice_expect_model(const char *path, const sluice_options *options,
                                           sluice_error *error);

/* A streamed model that is loaded. The handle keeps what streams it alive, so close it before or soon after
 * llama_model_free(). */
typedef struct sluice_model sluice_model;

/* The model loaded last from `path`; NULL with SLUICE_NOT_FOUND if none is: it was not announced, or it is
 * held in memory. */
SLUICE_API sluice_model *sluice_model_open(const char *path, sluice_error *error);
SLUICE_API void sluice_model_close(sluice_model *model);

/* Totals since the model was loaded, over all its contexts. */
typedef struct sluice_stats {
    size_t size;
    uint64_t graphs; /* computed with streamed weights */
    uint64_t hits;   /* slices that were in the cache when they were asked for */
    uint64_t misses; /* that had to be read while somebody waited */
    uint64_t evictions;
    uint64_t bytes_read;        /* of slices */
    uint64_t cache_bytes;       /* of the arena */
    uint64_t cache_limit_bytes; /* of it that may be used now */
    uint64_t cache_held_bytes;  /* of it that is in memory now */
    uint64_t expert_wait_us;    /* that all compute threads waited for slices */
    uint64_t row_bytes_read;    /* of row tables */
    uint64_t row_resident_bytes;
    uint64_t row_wait_us;
} sluice_stats;

SLUICE_API sluice_code sluice_model_stats(const sluice_model *model, sluice_stats *stats,
                                          sluice_error *error);

/* How much of the cache may be used from now on, even where memory would allow more; 0: all that it was made
 * with. What a graph needs this moment goes when it no longer does. Errors: SLUICE_INVALID_ARGUMENT (less
 * than one token needs), SLUICE_UNSUPPORTED (there is no cache before the first graph). */
SLUICE_API sluice_code sluice_model_set_cache_limit(sluice_model *model, uint64_t bytes, sluice_error *error);

/* Gives back at once what the cache holds and no graph needs this moment, as an app does when its system runs
 * out of memory. It is taken again as tokens need it. Returns how many bytes were given back. */
SLUICE_API uint64_t sluice_model_trim(sluice_model *model);

/* Why a graph of the model failed last, whichever context it came from: llama_decode() has only a number.
 * SLUICE_OK and an empty message if none did. */
SLUICE_API sluice_code sluice_model_last_error(const sluice_model *model, sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
