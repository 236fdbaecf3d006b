// The C interface: what is behind its handles, and how errors and structs cross it.
#include "sluice/sluice.h"

#include "base/notice.h"
#include "options/option_table.h"
#include "planning/plan.h"
#include "platform/open_files.h"
#include "streaming/model/host.h"
#include "streaming/model/load_source.h"

#include "llama.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

struct sluice_options {
    sluice::PlanRequest request;
};

struct sluice_model {
    std::shared_ptr<sluice::streaming::StreamedModel> streamed;
};

namespace {

using sluice::Error;
using sluice::ErrorCode;

sluice_code code_of(ErrorCode code) {
    switch (code) {
    case ErrorCode::InvalidArgument:
        return SLUICE_INVALID_ARGUMENT;
    case ErrorCode::NotFound:
        return SLUICE_NOT_FOUND;
    case ErrorCode::PermissionDenied:
        return SLUICE_PERMISSION_DENIED;
    case ErrorCode::InvalidFormat:
        return SLUICE_INVALID_FORMAT;
    case ErrorCode::Io:
        return SLUICE_IO;
    case ErrorCode::OutOfMemory:
        return SLUICE_OUT_OF_MEMORY;
    case ErrorCode::Unsupported:
        return SLUICE_UNSUPPORTED;
    case ErrorCode::Cancelled:
        return SLUICE_CANCELLED;
    case ErrorCode::Internal:
        break;
    }
    return SLUICE_INTERNAL;
}

/// As much of `value` as the caller's struct has room for, whose size stays.
template <typename Struct>
void hand_over(Struct value, Struct *target) {
    value.size = target->size;
    std::memcpy(target, &value, std::min(target->size, sizeof(Struct)));
}

sluice_code tell(sluice_code code, std::string_view message, sluice_error *error) {
    if (error != nullptr) {
        sluice_error told = {};
        told.code = code;
        message.copy(told.message, sizeof(told.message) - 1);
        hand_over(told, error);
    }
    return code;
}

sluice_code tell(const Error &failure, sluice_error *error) {
    return tell(code_of(failure.code), failure.message, error);
}

/// Calls `work`, which returns a code, and lets nothing out but one.
template <typename Work>
sluice_code guarded(sluice_error *error, Work work) {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return tell(SLUICE_OUT_OF_MEMORY, "out of memory", error);
    } catch (const std::exception &failure) {
        return tell(SLUICE_INTERNAL, failure.what(), error);
    }
}

sluice_code missing(const char *what, sluice_error *error) {
    return tell(SLUICE_INVALID_ARGUMENT, std::string("there is no ") + what, error);
}

/// Planning listens to llama.cpp's log; the application's own sink is back afterwards.
class LogKeeper {
public:
    LogKeeper() { llama_log_get(&sink_, &user_); }
    ~LogKeeper() { llama_log_set(sink_, user_); }
    LogKeeper(const LogKeeper &) = delete;
    LogKeeper &operator=(const LogKeeper &) = delete;

private:
    ggml_log_callback sink_ = nullptr;
    void *user_ = nullptr;
};

void take(const sluice_context_plan *context, sluice::PlanRequest &request) {
    sluice_context_plan wanted = {};
    if (context != nullptr) {
        std::memcpy(&wanted, context, std::min(context->size, sizeof(wanted)));
    }
    request.session.context_tokens = wanted.n_ctx;
    request.session.threads = wanted.n_threads;
    request.ubatch_given = wanted.n_ubatch > 0;
    if (request.ubatch_given) {
        request.session.ubatch_tokens = wanted.n_ubatch;
    }
}

sluice_plan as_struct(const sluice::RunPlan &plan) {
    return {.size = 0,
            .streams = plan.model.stream == sluice::StreamMode::Force ? 1 : 0,
            .cache_bytes = plan.model.cache_bytes.value_or(0),
            .peak_bytes = plan.peak_bytes,
            .budget_bytes = plan.budget_bytes.value_or(0),
            .expert_bytes = plan.expert_bytes,
            .token_bytes = plan.working_set_bytes,
            .n_ctx = plan.session.context_tokens,
            .n_ubatch = plan.session.ubatch_tokens,
            .n_threads = plan.session.threads};
}

sluice_stats stats_of(const sluice::streaming::StreamedModel &model) {
    const sluice::ExpertStats experts = sluice::streaming::expert_stats(model);
    const sluice::RowStats rows = sluice::streaming::row_stats(model);
    const auto microseconds = [](double seconds) { return static_cast<uint64_t>(seconds * 1e6); };
    const auto *cache = model.store->cache();
    return {.size = 0,
            .graphs = experts.graphs,
            .hits = experts.hits,
            .misses = experts.misses,
            .evictions = experts.evictions,
            .bytes_read = experts.bytes_read,
            .cache_bytes = experts.cache_bytes,
            .cache_limit_bytes = cache == nullptr ? 0 : cache->limit(),
            .cache_held_bytes = cache == nullptr ? 0 : cache->held_bytes(),
            .expert_wait_us = microseconds(experts.stall_seconds),
            .row_bytes_read = rows.bytes_read,
            .row_resident_bytes = rows.resident_bytes,
            .row_wait_us = microseconds(rows.stall_seconds)};
}

} // namespace

extern "C" {

int sluice_api_version(void) {
    return SLUICE_API_VERSION;
}

const char *sluice_version(void) {
    return SLUICE_VERSION;
}

void sluice_set_notice_sink(sluice_notice_sink sink, void *user) {
    if (sink == nullptr) {
        sluice::set_notice_sink({});
        return;
    }
    sluice::set_notice_sink(
        [sink, user](std::string_view sentence) { sink(std::string(sentence).c_str(), user); });
}

sluice_options *sluice_options_new(void) {
    return new (std::nothrow) sluice_options;
}

void sluice_options_free(sluice_options *options) {
    delete options;
}

sluice_code sluice_options_set(sluice_options *options, const char *name, const char *value,
                               sluice_error *error) {
    if (options == nullptr || name == nullptr || value == nullptr) {
        return missing(options == nullptr ? "place for options" : name == nullptr ? "name" : "value", error);
    }
    return guarded(error, [&] {
        const sluice::Status set = sluice::options::set_stream_option(options->request, name, value);
        return set ? SLUICE_OK : tell(set.error(), error);
    });
}

size_t sluice_option_count(void) {
    return sluice::options::stream_options().size();
}

sluice_code sluice_option_describe(size_t index, sluice_option_info *info, sluice_error *error) {
    const auto options = sluice::options::stream_options();
    if (info == nullptr || index >= options.size()) {
        return missing(info == nullptr ? "place for the description" : "option of that index", error);
    }
    // The table's texts are literals, which end with a zero byte.
    const sluice::options::StreamOption &option = options[index];
    hand_over({.size = 0,
               .name = option.name.data(),
               .value = option.value.data(),
               .help = option.help.data(),
               .is_lossy = option.lossy ? 1 : 0},
              info);
    return SLUICE_OK;
}

sluice_code sluice_plan_run(const char *path, sluice_options *options, const sluice_context_plan *context,
                            sluice_plan *plan, sluice_error *error) {
    if (path == nullptr || options == nullptr) {
        return missing(path == nullptr ? "path" : "place for options", error);
    }
    return guarded(error, [&] {
        sluice::PlanRequest request = options->request;
        request.model.path = path;
        take(context, request);
        const LogKeeper log;
        auto made = sluice::plan_run(request);
        if (!made) {
            return tell(made.error(), error);
        }
        options->request.model = made->model;
        options->request.session = made->session;
        if (plan != nullptr) {
            hand_over(as_struct(*made), plan);
        }
        return SLUICE_OK;
    });
}

sluice_code sluice_expect_model(const char *path, const sluice_options *options, sluice_error *error) {
    if (path == nullptr) {
        return missing("path", error);
    }
    return guarded(error, [&] {
        sluice::ModelOptions wanted = options == nullptr ? sluice::ModelOptions() : options->request.model;
        wanted.path = path;
        const sluice::Status expected = sluice::expect_model(wanted);
        return expected ? SLUICE_OK : tell(expected.error(), error);
    });
}

sluice_model *sluice_model_open(const char *path, sluice_error *error) {
    if (path == nullptr) {
        missing("path", error);
        return nullptr;
    }
    sluice_model *opened = nullptr;
    guarded(error, [&] {
        const auto key = sluice::platform::key_of(std::string(path));
        for (auto &model : sluice::streaming::LoadSource::instance().models()) {
            if (key && sluice::platform::key_of(model->options.path) == key) {
                delete opened;
                opened = new sluice_model{std::move(model)};
            }
        }
        return opened != nullptr
                   ? SLUICE_OK
                   : tell(SLUICE_NOT_FOUND, std::string("no streamed model is loaded from ") + path, error);
    });
    return opened;
}

void sluice_model_close(sluice_model *model) {
    delete model;
}

sluice_code sluice_model_stats(const sluice_model *model, sluice_stats *stats, sluice_error *error) {
    if (model == nullptr || stats == nullptr) {
        return missing(model == nullptr ? "model" : "place for statistics", error);
    }
    return guarded(error, [&] {
        hand_over(stats_of(*model->streamed), stats);
        return SLUICE_OK;
    });
}

sluice_code sluice_model_set_cache_limit(sluice_model *model, uint64_t bytes, sluice_error *error) {
    if (model == nullptr) {
        return missing("model", error);
    }
    return guarded(error, [&] {
        const auto limit = bytes == 0 ? std::nullopt : std::optional(bytes);
        const sluice::Status set = model->streamed->runtime->limit_cache(limit);
        return set ? SLUICE_OK : tell(set.error(), error);
    });
}

uint64_t sluice_model_trim(sluice_model *model) {
    return model == nullptr ? 0 : model->streamed->runtime->trim();
}

sluice_code sluice_model_last_error(const sluice_model *model, sluice_error *error) {
    if (model == nullptr) {
        return missing("model", error);
    }
    return guarded(error, [&] {
        const auto last = model->streamed->store->last_error();
        return last ? tell(*last, error) : tell(SLUICE_OK, "", error);
    });
}

} // extern "C"
