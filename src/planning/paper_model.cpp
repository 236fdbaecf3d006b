#include "planning/paper_model.h"

#include "session/lossy.h"

#include <fmt/format.h>

namespace sluice::planning {

Result<std::unique_ptr<PaperModel>> PaperModel::make(const ModelOptions &model, const SessionOptions &session,
                                                     bool streaming, const gguf::GgufDirectory &directory,
                                                     const session::ContextParamsOf &params_of) {
    session::capture_llama_log();
    session::init_llama();
    std::unique_ptr<PaperModel> paper(new PaperModel());
    if (streaming) {
        streaming::register_device();
        streaming::StoreOptions options =
            streaming::store_options(model, streaming::expert_access(model, directory));
        options.dry = true;
        options.on_dry_node = [&workspace = paper->workspace_, threads = session::compute_threads(session)](
                                  const ggml_cgraph *graph, int node, bool streamed) {
            workspace.note(graph, node, threads, streamed);
        };
        auto store = streaming::StreamedStore::create(directory, std::move(options));
        if (!store) {
            return fail(store.error());
        }
        paper->store_ = std::move(*store);
    }
    paper->scope_.emplace(paper->store_.get());
    if (auto loaded = paper->load(model, directory); !loaded) {
        return fail(loaded.error());
    }
    if (auto laid_out = paper->lay_out(params_of(*paper->model_, session)); !laid_out) {
        return fail(laid_out.error());
    }
    return paper;
}

Status PaperModel::load(const ModelOptions &options, const gguf::GgufDirectory &directory) {
    const auto overrides = session::metadata_overrides(options.lossy, directory);
    if (!overrides) {
        return fail(overrides.error());
    }
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = options.repack;
    params.kv_overrides = overrides->data();
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    model_.reset(llama_model_load_from_file(options.path.c_str(), params));
    if (model_ == nullptr) {
        return fail(ErrorCode::InvalidFormat, fmt::format("cannot load {}: {}", options.path, log_.reason()));
    }
    return {};
}

Status PaperModel::lay_out(const llama_context_params &params) {
    const streaming::ContextScope backends;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (context_ == nullptr) {
        return fail(ErrorCode::OutOfMemory,
                    fmt::format("cannot lay out a context of {} tokens: {}", params.n_ctx, log_.reason()));
    }
    cpu_backends_ = 1 + backends.backends().size();
    return {};
}

} // namespace sluice::planning
