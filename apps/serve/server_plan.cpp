#include "server_plan.h"

#include "gguf/gguf_directory.h"
#include "planning/host_plan.h"
#include "planning/memory_needs.h"
#include "platform/file.h"
#include "session/lossy.h"
#include "streaming/model/host.h"
#include "streaming/model/streamed_model.h"

#include "mtmd.h"
#include "speculative.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace sluice::serve {

namespace {

/// llama.cpp's sign for "-c 0": all that the model was trained for.
bool wants_trained_context(const common_params &params) {
    return params.n_ctx == 0 && static_cast<uint32_t>(params.fit_params_min_ctx) == UINT32_MAX;
}

/// Tokens of context that `params` ask for; 0: nobody said.
uint32_t asked_context(const common_params &params) {
    if (params.n_ctx > 0) {
        return static_cast<uint32_t>(params.n_ctx);
    }
    const bool pool = params.kv_unified_per_slot > 0 && !wants_trained_context(params);
    return pool ? static_cast<uint32_t>(params.n_parallel * params.kv_unified_per_slot) : 0;
}

/// The server computes logits for no more tokens than it samples from.
void limit_outputs(common_params &params) {
    const bool pools = params.pooling_type != LLAMA_POOLING_TYPE_UNSPECIFIED &&
                       params.pooling_type != LLAMA_POOLING_TYPE_NONE;
    if (params.embedding || pools) {
        params.n_outputs_max = params.n_batch;
        params.n_outputs_max_per_seq = 1;
        return;
    }
    const auto limits = common_speculative_get_output_limits(params.n_batch, params.n_parallel,
                                                             common_speculative_n_max(&params.speculative));
    params.n_outputs_max = std::max(1, static_cast<int>(limits.total));
    params.n_outputs_max_per_seq = std::max(1, static_cast<int>(limits.per_seq));
}

/// The context that llama.cpp's server makes of `params`.
llama_context_params context_of(common_params params, const llama_model &model,
                                const SessionOptions &session) {
    const SessionOptions decided = session;
    limit_outputs(params);
    llama_context_params wanted = common_context_params_to_llama(params);
    if (decided.context_tokens > 0) {
        wanted.n_ctx = decided.context_tokens;
    } else {
        wanted.n_ctx = wants_trained_context(params)
                           ? static_cast<uint32_t>(std::max(llama_model_n_ctx_train(&model), 1))
                           : session::context_params(model, decided).n_ctx;
    }
    wanted.n_ubatch = decided.ubatch_tokens;
    wanted.n_batch = std::max(wanted.n_batch, wanted.n_ubatch);
    wanted.n_threads = wanted.n_threads_batch = decided.threads;
    return wanted;
}

uint64_t size_of_file(const std::string &path) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    return error ? 0 : bytes;
}

Result<uint64_t> draft_bytes(const common_params &params) {
    common_params draft = common_base_params_to_speculative(params);
    auto directory = gguf::GgufDirectory::open(draft.model.path, false, platform::system_files());
    if (!directory) {
        return fail(directory.error().with_context("the draft model"));
    }
    ModelOptions options;
    options.path = draft.model.path;
    options.repack = !params.no_extra_bufts;
    SessionOptions session;
    session.context_tokens = asked_context(params);
    session.ubatch_tokens = static_cast<uint32_t>(draft.n_ubatch);
    const auto needs =
        planning::measure_needs(options, session, false, **directory,
                                [&draft](const llama_model &model, const SessionOptions &decided) {
                                    llama_context_params wanted = common_context_params_to_llama(draft);
                                    wanted.n_ctx = session::context_params(model, decided).n_ctx;
                                    return wanted;
                                });
    if (!needs) {
        return fail(needs.error().with_context("the draft model"));
    }
    return needs->dense_bytes + needs->context_bytes + needs->compute_bytes;
}

uint64_t projector_bytes(const common_params &params) {
    mtmd_context_params wanted = mtmd_context_params_default();
    wanted.use_gpu = false;
    wanted.print_timings = false;
    uint64_t bytes = 0;
    for (const auto &[device, part] : mtmd_get_memory_usage(params.mmproj.path.c_str(), wanted)) {
        bytes += part;
    }
    return std::max(bytes, size_of_file(params.mmproj.path));
}

/// What the server holds beside the model and its context.
Result<std::vector<PlanItem>> held_beside(const common_params &params) {
    std::vector<PlanItem> items;
    if (params.speculative.has_dft()) {
        const auto bytes = draft_bytes(params);
        if (!bytes) {
            return fail(bytes.error());
        }
        items.push_back({"draft model", *bytes});
    }
    if (!params.mmproj.path.empty()) {
        items.push_back({"projector", projector_bytes(params)});
    }
    uint64_t adapters = 0;
    for (const auto &adapter : params.lora_adapters) {
        adapters += size_of_file(adapter.path);
    }
    for (const auto &vector : params.control_vectors) {
        adapters += size_of_file(vector.fname);
    }
    if (adapters > 0) {
        items.push_back({"adapters", adapters});
    }
    if (params.cache_ram_mib > 0) {
        items.push_back({"prompt cache", static_cast<uint64_t>(params.cache_ram_mib) << 20U});
    }
    return items;
}

void warn_of_no_effect(const RunPlan &plan, const Arguments &arguments) {
    if (arguments.given({"-ngl"})) {
        std::fputs("sluice: -ngl has no effect: all layers are computed by the processor\n", stderr);
    }
    if (plan.model.stream == StreamMode::Force && arguments.given({"-lm", "--mmap", "--mlock"})) {
        std::fputs("sluice: how llama.cpp is to load has no effect while streaming (see --dense-weights)\n",
                   stderr);
    }
}

void warn_of_long_context(const RunPlan &plan, const gguf::GgufDirectory &directory) {
    const uint64_t trained = directory.header_integer("{arch}.context_length").value_or(0);
    if (trained > 0 && plan.session.context_tokens > trained) {
        std::fprintf(stderr,
                     "sluice: a context of %u tokens is more than the %llu that the model was trained for\n",
                     plan.session.context_tokens, static_cast<unsigned long long>(trained));
    }
}

Status override_metadata(const RunPlan &plan, const gguf::GgufDirectory &directory, common_params &params) {
    if (plan.model.lossy.n_expert_used == 0) {
        return {};
    }
    auto overrides = session::metadata_overrides(plan.model.lossy, directory);
    if (!overrides) {
        return fail(overrides.error());
    }
    params.kv_overrides.insert(params.kv_overrides.begin(), overrides->begin(), std::prev(overrides->end()));
    if (params.kv_overrides.back().key[0] != 0) {
        params.kv_overrides.push_back(overrides->back());
    }
    return {};
}

/// Some files ask for a token that ends text behind every text. A prompt that is to be continued must not
/// have it; for embeddings it stays. What the user overrides comes first, and wins.
void leave_prompts_open(const gguf::GgufDirectory &directory, common_params &params) {
    constexpr std::string_view kKey = "tokenizer.ggml.add_eos_token";
    if (params.embedding || !directory.header_is_true(kKey)) {
        return;
    }
    llama_model_kv_override open{};
    open.tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
    open.val_bool = false;
    kKey.copy(open.key, sizeof(open.key) - 1);
    if (params.kv_overrides.empty()) {
        params.kv_overrides.push_back({}); // what ends the list
    }
    params.kv_overrides.insert(std::prev(params.kv_overrides.end()), open);
}

} // namespace

Result<RunPlan> plan_server(const Arguments &arguments, const common_params &params, bool long_lived) {
    PlanRequest request = arguments.request;
    request.long_lived = long_lived;
    request.model.path = params.model.path;
    request.model.repack = !params.no_extra_bufts;
    const bool threads_given = arguments.given({"-t"}) || params.cpuparams.mask_valid;
    request.session.threads = threads_given ? params.cpuparams.n_threads : 0;
    request.session.context_tokens = asked_context(params);
    request.session.ubatch_tokens = static_cast<uint32_t>(params.n_ubatch);
    request.ubatch_given = arguments.given({"-ub"}) || params.n_ubatch != common_params().n_ubatch;
    auto beside = held_beside(params);
    if (!beside) {
        return fail(beside.error());
    }
    return planning::plan_host(
        request,
        {.params_of = [&params](const llama_model &model,
                                const SessionOptions &session) { return context_of(params, model, session); },
         .beside = std::move(*beside)});
}

Status follow_plan(const RunPlan &plan, const Arguments &arguments, common_params &params) {
    warn_of_no_effect(plan, arguments);
    const bool batch_threads_given = arguments.given({"-tb"});
    params.cpuparams.n_threads = plan.session.threads;
    if (!batch_threads_given) {
        params.cpuparams_batch.n_threads = plan.session.threads;
    }
    params.n_ctx = static_cast<int32_t>(plan.session.context_tokens);
    params.n_ubatch = static_cast<int32_t>(plan.session.ubatch_tokens);
    params.n_batch = std::max(params.n_batch, params.n_ubatch);
    params.fit_params = false;
    params.n_gpu_layers = 0;
    const auto directory =
        gguf::GgufDirectory::open(plan.model.path, plan.model.direct, platform::system_files());
    if (!directory) {
        return fail(directory.error());
    }
    warn_of_long_context(plan, **directory);
    if (auto overridden = override_metadata(plan, **directory, params); !overridden) {
        return overridden;
    }
    leave_prompts_open(**directory, params);
    if (plan.model.stream != StreamMode::Force) {
        return {};
    }
    params.load_mode = streaming::expert_access(plan.model, **directory) == platform::Access::Direct
                           ? LLAMA_LOAD_MODE_DIRECT_IO
                           : LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    if (!arguments.given({"--warmup"})) {
        params.warmup = false; // it computes with every expert, which reads the whole file
    }
    return expect_model(plan.model);
}

} // namespace sluice::serve
