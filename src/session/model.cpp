#include "session/model.h"

#include "base/notice.h"
#include "platform/memory_facts.h"
#include "platform/open_files.h"
#include "session/dense_weights.h"
#include "session/llama_log.h"
#include "session/lossy.h"
#include "session/model_state.h"
#include "session/planner.h"
#include "streaming/device/streaming_device.h"
#include "streaming/weights/load_target.h"

#include "chat.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <mutex>

namespace sluice {

namespace session {

namespace {

uint64_t tensor_bytes(const gguf::GgufDirectory &directory) {
    uint64_t bytes = 0;
    for (const gguf::TensorEntry &entry : directory.tensors()) {
        bytes += entry.bytes;
    }
    return bytes;
}

/// llama.cpp's progress counts the whole file; the part that is streamed never comes.
bool report_progress(float done, void *data) {
    const ModelState &state = *static_cast<ModelState *>(data);
    const auto all = static_cast<double>(tensor_bytes(*state.directory));
    const double streamed = state.streamed != nullptr
                                ? static_cast<double>(state.streamed->store->streamed_bytes() +
                                                      state.streamed->store->row_table_bytes())
                                : 0.0;
    const double fraction = streamed < all ? done * all / (all - streamed) : done;
    return state.options.progress(static_cast<float>(std::min(fraction, 1.0)));
}

/// While streaming llama.cpp never maps, since it would populate the whole file: what is to be mapped, we
/// map.
llama_load_mode load_mode(const ModelState &state) {
    const bool direct = state.options.direct && streaming::all_direct(*state.directory);
    const llama_load_mode reading = direct ? LLAMA_LOAD_MODE_DIRECT_IO : LLAMA_LOAD_MODE_NONE;
    if (state.info.streaming) {
        return reading;
    }
    switch (state.options.dense_weights) {
    case DenseWeights::Mmap:
    case DenseWeights::Warm:
        return LLAMA_LOAD_MODE_MMAP;
    case DenseWeights::Locked:
        return LLAMA_LOAD_MODE_MLOCK;
    default:
        return reading;
    }
}

llama_model_params model_params(ModelState &state) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = state.options.repack;
    params.load_mode = load_mode(state);
    if (state.info.streaming) {
        params.lazy_mode = LLAMA_LAZY_MODE_OFF; // it would map large tables before asking us
    }
    if (state.options.progress) {
        params.progress_callback = report_progress;
        params.progress_callback_user_data = &state;
    }
    return params;
}

/// Runs llama.cpp's loader, our device taking what the store wants when streaming.
Status load_weights(ModelState &state) {
    const auto overrides = metadata_overrides(state.options.lossy, *state.directory);
    if (!overrides) {
        return fail(overrides.error());
    }
    llama_model_params params = model_params(state);
    params.kv_overrides = overrides->data();
    const LogScope log;
    {
        const streaming::LoadScope scope(state.streamed != nullptr ? state.streamed->store.get() : nullptr);
        state.llama.reset(llama_model_load_from_file(state.options.path.c_str(), params));
    }
    if (state.llama != nullptr) {
        // llama.cpp says so itself only when it has read every byte of the file.
        if (state.streamed != nullptr && state.options.progress && !state.options.progress(1.0F)) {
            return fail(ErrorCode::Cancelled, fmt::format("loading {} was cancelled", state.options.path));
        }
        return {};
    }
    if (const std::string reason = log.reason(); !reason.empty()) {
        return fail(ErrorCode::InvalidFormat, fmt::format("cannot load {}: {}", state.options.path, reason));
    }
    return fail(ErrorCode::Cancelled, fmt::format("loading {} was cancelled", state.options.path));
}

Status prepare_streaming(ModelState &state) {
    streaming::register_device();
    auto streamed = streaming::StreamedModel::make(state.options, state.directory);
    if (!streamed) {
        return fail(streamed.error());
    }
    state.streamed = std::move(*streamed);
    state.info.io_note = state.streamed->io_note;
    state.info.io_engine = storage::setting_name(state.streamed->reads->setting());
    state.info.direct = state.streamed->direct;
    state.info.direct_refusal = state.streamed->direct_refusal;
    return {};
}

/// llama.cpp has opened the files by their names as we did before it: were they the same?
Status check_files(const gguf::GgufDirectory &directory) {
    for (const auto &shard : directory.shards()) {
        const auto descriptor = shard->descriptor(platform::Access::Buffered);
        if (descriptor && platform::key_of(shard->path()) != platform::key_of(*descriptor)) {
            return fail(ErrorCode::Io,
                        fmt::format("{} was replaced while it was being loaded", shard->path()));
        }
    }
    return {};
}

void read_templates(ModelState &state) {
    if (llama_model_chat_template(state.llama.get(), nullptr) == nullptr) {
        return;
    }
    try {
        state.templates.reset(common_chat_templates_init(state.llama.get(), "").release());
    } catch (const std::exception &) {
        state.templates.reset(); // a template that does not parse is no template
    }
}

void describe(ModelState &state) {
    char text[256] = "";
    llama_model_desc(state.llama.get(), text, sizeof(text));
    state.info.description = text;
    if (llama_model_meta_val_str(state.llama.get(), "general.architecture", text, sizeof(text)) >= 0) {
        state.info.architecture = text;
    }
    if (state.streamed != nullptr) {
        state.info.streamed_bytes = state.streamed->store->streamed_bytes();
        state.info.expert_banks = state.streamed->store->banks().size();
        state.info.row_table_bytes = state.streamed->store->row_table_bytes();
        state.info.mapped_bytes = state.streamed->store->mapped_bytes();
    }
    const uint64_t all = tensor_bytes(*state.directory);
    state.info.dense_bytes = all - std::min(all, state.info.streamed_bytes + state.info.row_table_bytes);
}

} // namespace

void init_llama() {
    static std::once_flag once;
    std::call_once(once, [] { llama_backend_init(); });
}

void ChatTemplatesDeleter::operator()(common_chat_templates *templates) const {
    common_chat_templates_free(templates);
}

Result<std::unique_ptr<ModelState>> load_model(const ModelOptions &options, platform::IFileSystem &files) {
    const auto start = std::chrono::steady_clock::now();
    const platform::ProcessIo io_before = platform::read_process_io();
    capture_llama_log();
    init_llama();
    if (auto possible = check_dense_weights(options.dense_weights); !possible) {
        return fail(possible.error());
    }
    if (options.repack_experts && !options.repack) {
        return fail(ErrorCode::InvalidArgument, "experts cannot be repacked where nothing is to be repacked");
    }

    auto directory = gguf::GgufDirectory::open(options.path, options.direct, files);
    if (!directory) {
        return fail(directory.error());
    }
    auto state = std::make_unique<ModelState>();
    state->options = options;
    state->directory = std::move(*directory);
    const platform::MemoryFacts memory = platform::read_memory_facts();
    const ModeChoice mode =
        choose_mode(options.stream,
                    {.file_bytes = state->directory->file_bytes(),
                     .has_experts = state->directory->header_integer("{arch}.expert_count").value_or(0) > 0,
                     .usable_memory = platform::usable_memory(memory),
                     .group_limit = bounding_group_limit(memory)});
    state->info.path = options.path;
    state->info.streaming = mode.stream;
    state->info.mode_reason = options.mode_reason.empty() ? mode.reason : options.mode_reason;
    LossyOptions in_force = options.lossy;
    if (!mode.stream && (in_force.drop_cold > 0 || in_force.substitute > 0)) {
        notice(
            "--drop-cold and --substitute do nothing, since no expert is missing in a model that is held in "
            "memory");
        in_force.drop_cold = in_force.substitute = 0;
    }
    state->info.lossy = in_force.flags();
    state->info.file_bytes = state->directory->file_bytes();
    if (!mode.stream && options.dense_weights == DenseWeights::Locked) {
        state->info.dense_note = "the model is resident: llama.cpp locks as much of it as the system allows";
    }
    if (mode.stream) {
        if (auto prepared = prepare_streaming(*state); !prepared) {
            return fail(prepared.error());
        }
    }
    if (auto loaded = load_weights(*state); !loaded) {
        return fail(loaded.error());
    }
    if (auto same = check_files(*state->directory); !same) {
        return fail(same.error());
    }
    describe(*state);
    if (auto warmed = warm_dense_weights(*state, options.progress); !warmed) {
        return fail(warmed.error());
    }
    read_templates(*state);

    const platform::ProcessIo io_after = platform::read_process_io();
    if (io_before.syscall_read && io_after.syscall_read) {
        state->info.load_read_bytes = *io_after.syscall_read - *io_before.syscall_read;
    }
    state->info.load_peak_bytes = platform::read_process_memory().peak_resident;
    state->info.load_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return state;
}

} // namespace session

Result<Model> Model::load(const ModelOptions &options) {
    try {
        auto state = session::load_model(options, platform::system_files());
        if (!state) {
            return fail(state.error());
        }
        return Model(std::move(*state));
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("out of memory while loading {}", options.path));
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot load {}: {}", options.path, error.what()));
    }
}

Model Model::from_state(std::unique_ptr<session::ModelState> state) {
    return Model(std::move(state));
}

Model::Model(std::unique_ptr<session::ModelState> state) : state_(std::move(state)) {
}
Model::~Model() = default;
Model::Model(Model &&) noexcept = default;
Model &Model::operator=(Model &&) noexcept = default;

const ModelInfo &Model::info() const {
    return state_->info;
}

bool Model::has_chat_template() const {
    return state_->templates != nullptr;
}

std::vector<RowTableInfo> Model::row_tables() const {
    return state_->streamed != nullptr ? streaming::row_tables(*state_->streamed)
                                       : std::vector<RowTableInfo>();
}

} // namespace sluice
