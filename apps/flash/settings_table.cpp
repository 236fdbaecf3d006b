#include "settings_table.h"

#include "words.h"

#include <cmath>

namespace sluice::flash {

namespace {

/// Whole ones where they are many: slots and pages rarely add up to what was asked for.
Json mebibytes(uint64_t bytes) {
    const double value = static_cast<double>(bytes) / kMebibyte;
    return value >= 1 ? Json(static_cast<uint64_t>(std::round(value))) : Json(value);
}

Json number_or_none(uint64_t value) {
    return value > 0 ? Json(value) : Json(nullptr);
}

/// A float as it was meant: 0.2 and not 0.200000003.
Json share(float value) {
    return Json(std::round(static_cast<double>(value) * 1e6) / 1e6);
}

Json lookahead_value(const Now &now) {
    const std::optional<uint32_t> &experts = now.model.options.lookahead;
    return !experts ? Json("auto") : *experts == 0 ? Json("off") : Json(*experts);
}

/// Until the first token there is no cache, only what the plan has given it.
Json cache_value(const Now &now) {
    if (now.model.cache.capacity > 0) {
        return mebibytes(now.model.cache.limit);
    }
    return now.model.options.cache_bytes ? mebibytes(*now.model.options.cache_bytes) : Json("auto");
}

constexpr const char *kMemory = "Memory and cache";
constexpr const char *kDense = "Dense weights and rows";
constexpr const char *kReading = "Guessing ahead and reading";
constexpr const char *kLossy = "Lossy";
constexpr const char *kContext = "Context and processor";

std::vector<Setting> memory_settings() {
    return {
        {.name = "ram-mb",
         .group = kMemory,
         .about = "The most memory that all of this may take.",
         .unit = "MiB",
         .min = 1,
         .value =
             [](const Now &now) {
                 return now.start.ceiling_bytes ? mebibytes(*now.start.ceiling_bytes) : Json(nullptr);
             }},
        {.name = "moe-stream",
         .group = kMemory,
         .about = "Leave experts on storage and read those that are needed.",
         .type = "switch",
         .value = [](const Now &) { return Json(true); }},
        {.name = "cache-mb",
         .group = kMemory,
         .about = "Memory for experts that were read: more of it means fewer reads.",
         .unit = "MiB",
         .words = {"auto"},
         .min = 1,
         .value = cache_value,
         .now = true},
        {.name = "cache-policy",
         .group = kMemory,
         .about = "How a full cache chooses the experts that it drops.",
         .type = "choice",
         .choices = {"next-use", "lru", "lfu"},
         .value = [](const Now &now) { return Json(word_of(now.model.options.cache_policy)); }},
        {.name = "dense-weights",
         .group = kDense,
         .about = "How the weights that every token needs are held.",
         .type = "choice",
         .choices = {"anon", "mmap", "warm", "locked", "ahwb"},
         .value = [](const Now &now) { return Json(word_of(now.model.options.dense_weights)); }},
        {.name = "row-stream",
         .group = kDense,
         .about = "Read only the rows that are needed of tables that are never multiplied.",
         .type = "switch",
         .value = [](const Now &now) { return Json(now.model.options.row_stream); }},
        {.name = "row-stream-mb",
         .group = kDense,
         .about = "Memory for such rows.",
         .unit = "MiB",
         .min = 1.0 / 64,
         .value = [](const Now &now) { return mebibytes(now.model.options.row_window_bytes); }},
    };
}

std::vector<Setting> reading_settings() {
    return {
        {.name = "lookahead",
         .group = kReading,
         .about = "Experts of the next layer to guess and read early.",
         .unit = "experts",
         .words = {"auto", "off"},
         .min = 0,
         .max = 1024,
         .value = lookahead_value,
         .settled = "lookahead",
         .now = true},
        {.name = "io-engine",
         .group = kReading,
         .about = "What reads experts and rows.",
         .type = "choice",
         .choices = {"auto", "uring", "threads"},
         .value = [](const Now &now) { return Json(word_of(now.model.options.io_engine)); },
         .settled = "reading"},
        {.name = "io-depth",
         .group = kReading,
         .about = "Reads in flight at once in Linux's ring.",
         .min = 1,
         .max = 1024,
         .value =
             [](const Now &now) { return number_or_none(static_cast<uint64_t>(now.model.options.io_depth)); },
         .settled = "reading"},
        {.name = "io-threads",
         .group = kReading,
         .about = "Threads that read experts, where the ring does not.",
         .min = 1,
         .max = 64,
         .value =
             [](const Now &now) {
                 return number_or_none(static_cast<uint64_t>(now.model.options.io_threads));
             },
         .settled = "reading"},
        {.name = "direct",
         .group = kReading,
         .about = "Read past the system's page cache, which would hold everything twice.",
         .type = "switch",
         .value = [](const Now &now) { return Json(now.model.options.direct); }},
        {.name = "hot-set",
         .group = kReading,
         .about = "Begin with the experts that were in the cache last time.",
         .type = "switch",
         .value = [](const Now &now) { return Json(!now.model.options.hot_set_folder.empty()); }},
    };
}

std::vector<Setting> lossy_settings() {
    return {
        {.name = "n-expert-used",
         .group = kLossy,
         .about = "Experts that a token uses in each layer, instead of the model's number.",
         .min = 1,
         .max = 1024,
         .value = [](const Now &now) { return number_or_none(now.model.options.lossy.n_expert_used); },
         .lossy = true},
        {.name = "drop-cold",
         .group = kLossy,
         .about =
             "Leave out experts that are not in the cache and weigh less than this share of an even one.",
         .min = 0,
         .max = 1024,
         .value = [](const Now &now) { return share(now.model.options.lossy.drop_cold); },
         .now = true,
         .lossy = true},
        {.name = "substitute",
         .group = kLossy,
         .about =
             "Use experts in the cache in the place of others whose score is higher by at most this share.",
         .min = 0,
         .max = 1,
         .value = [](const Now &now) { return share(now.model.options.lossy.substitute); },
         .now = true,
         .lossy = true},
    };
}

/// llama.cpp's own that a plan decides as well.
std::vector<Setting> context_settings() {
    return {
        {.name = "threads",
         .group = kContext,
         .about = "Processor threads that compute.",
         .min = 1,
         .max = 512,
         .value =
             [](const Now &now) { return number_or_none(static_cast<uint64_t>(now.start.session.threads)); },
         .settled = "threads",
         .short_flag = "-t"},
        {.name = "ctx-size",
         .group = kContext,
         .about = "How much text the model sees at once.",
         .unit = "tokens",
         .min = 0,
         .value = [](const Now &now) { return Json(now.start.session.context_tokens); },
         .short_flag = "-c"},
        {.name = "ubatch-size",
         .group = kContext,
         .about = "Tokens of a prompt computed together: more are quicker and take memory.",
         .unit = "tokens",
         .min = 1,
         .max = 65536,
         .value = [](const Now &now) { return Json(now.start.session.ubatch_tokens); },
         .short_flag = "-ub"},
        {.name = "repack",
         .group = kContext,
         .about = "Give dense weights the layout of the fastest kernels.",
         .type = "switch",
         .value = [](const Now &now) { return Json(now.model.options.repack); }},
    };
}

} // namespace

const std::vector<Setting> &all_settings() {
    static const std::vector<Setting> all = [] {
        std::vector<Setting> made;
        for (const auto &some :
             {memory_settings(), reading_settings(), lossy_settings(), context_settings()}) {
            made.insert(made.end(), some.begin(), some.end());
        }
        return made;
    }();
    return all;
}

} // namespace sluice::flash
