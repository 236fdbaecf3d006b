#include "streaming/model/load_source.h"

#include "platform/file.h"
#include "streaming/device/streaming_device.h"
#include "streaming/model/host.h"

#include "ggml-impl.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::streaming {

namespace {

/// Whether the loader, which knows the tensor by name and shape, can have it from that file.
bool has(const gguf::GgufDirectory &directory, const ggml_tensor *weight) {
    const gguf::TensorEntry *entry = directory.find(weight->name);
    return entry != nullptr && entry->type == weight->type &&
           std::equal(entry->shape.begin(), entry->shape.end(), weight->ne);
}

bool reads_from(const gguf::GgufDirectory &directory, int descriptor) {
    const auto &shards = directory.shards();
    return std::any_of(shards.begin(), shards.end(), [descriptor](const auto &shard) {
        return shard->descriptor(platform::Access::Buffered) == descriptor ||
               shard->descriptor(platform::Access::Direct) == descriptor;
    });
}

/// A file may have been replaced between the loader's opening it and ours.
bool is_file(const gguf::GgufDirectory &directory, const platform::FileKey &key) {
    const auto descriptor = directory.shards().front()->descriptor(platform::Access::Buffered);
    return !descriptor || platform::key_of(*descriptor) == key;
}

bool is_worth_streaming(const gguf::GgufDirectory &directory, const ModelOptions &options) {
    return options.row_stream || directory.header_integer("{arch}.expert_count").value_or(0) > 0;
}

} // namespace

LoadSource &LoadSource::instance() {
    static LoadSource source;
    static std::once_flag once;
    std::call_once(once, [] { streaming::set_load_source(&source); });
    return source;
}

Status LoadSource::expect(const ModelOptions &options) {
    const auto key = platform::key_of(options.path);
    if (!key) {
        return fail(ErrorCode::NotFound, fmt::format("there is no file {}", options.path));
    }
    auto directory = gguf::GgufDirectory::open(options.path, false, platform::system_files());
    if (!directory) {
        return fail(directory.error());
    }
    const std::lock_guard lock(mutex_);
    if (options.stream == StreamMode::Never) {
        expected_.erase(*key);
        return {};
    }
    expected_.insert_or_assign(*key, options);
    refused_.erase(*key);
    return {};
}

void LoadSource::take_any(const ModelOptions &options) {
    const std::lock_guard lock(mutex_);
    any_ = options;
}

std::vector<std::shared_ptr<StreamedModel>> LoadSource::models() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<StreamedModel>> alive;
    std::erase_if(models_, [&alive](const auto &model) {
        auto held = model.lock();
        const bool gone = held == nullptr;
        if (!gone) {
            alive.push_back(std::move(held));
        }
        return gone;
    });
    return alive;
}

streaming::FoundLoad LoadSource::find(const ggml_tensor *weight) {
    const std::lock_guard lock(mutex_);
    if (expected_.empty() && !any_) {
        return {};
    }
    std::vector<Candidate> found = candidates(weight);
    if (found.size() > 1) {
        GGML_LOG_ERROR(
            "sluice: %s and %s are open and both have %s: nothing of this load is streamed, since it "
            "may be either; load one after the other\n",
            found[0].directory->shard_paths().front().c_str(),
            found[1].directory->shard_paths().front().c_str(), weight->name);
        return {};
    }
    if (found.empty()) {
        return {};
    }
    const platform::OpenFile file = found.front().file;
    return {.store = begin(std::move(found.front())), .file = file};
}

std::vector<LoadSource::Candidate> LoadSource::candidates(const ggml_tensor *weight) {
    std::vector<Candidate> found;
    for (const platform::OpenFile &file : platform::open_regular_files()) {
        const auto options = options_for(file);
        const bool known = std::any_of(found.begin(), found.end(), [&file](const Candidate &candidate) {
            return candidate.file.key == file.key;
        });
        if (!options || known || refused_.contains(file.key) || is_ours(file.descriptor)) {
            continue;
        }
        Candidate candidate{.file = file, .options = *options, .directory = {}};
        candidate.directory = directory_of(candidate);
        if (candidate.directory != nullptr && has(*candidate.directory, weight)) {
            found.push_back(std::move(candidate));
        }
    }
    return found;
}

std::optional<ModelOptions> LoadSource::options_for(const platform::OpenFile &file) const {
    if (const auto expected = expected_.find(file.key); expected != expected_.end()) {
        return expected->second;
    }
    if (!any_) {
        return std::nullopt;
    }
    ModelOptions options = *any_;
    options.path = platform::path_of(file.descriptor);
    return options.path.empty() ? std::nullopt : std::optional(options);
}

/// Null, and not asked about again, if the file is none that can be streamed.
std::shared_ptr<const gguf::GgufDirectory> LoadSource::directory_of(const Candidate &candidate) {
    const ModelOptions &options = candidate.options;
    auto directory = gguf::GgufDirectory::open(options.path, options.direct, platform::system_files());
    if (directory && !is_file(**directory, candidate.file.key)) {
        GGML_LOG_ERROR("sluice: %s was replaced while it was being loaded; nothing of it is streamed\n",
                       options.path.c_str());
        return nullptr;
    }
    if (!directory || !is_worth_streaming(**directory, options)) {
        refused_.insert(candidate.file.key);
        return nullptr;
    }
    return std::move(*directory);
}

bool LoadSource::is_ours(int descriptor) const {
    return std::any_of(models_.begin(), models_.end(), [descriptor](const auto &model) {
        const auto held = model.lock();
        return held != nullptr && reads_from(*held->directory, descriptor);
    });
}

std::shared_ptr<streaming::StreamedStore> LoadSource::begin(Candidate candidate) {
    auto made = StreamedModel::make(candidate.options, std::move(candidate.directory));
    if (!made) {
        GGML_LOG_ERROR("sluice: %s is not streamed: %s\n", candidate.options.path.c_str(),
                       made.error().message.c_str());
        refused_.insert(candidate.file.key);
        return nullptr;
    }
    std::shared_ptr<StreamedModel> model = std::move(*made);
    if (observer_ != nullptr) {
        model = observed(std::move(model));
    }
    models_.push_back(model);
    streaming::StreamedStore *store = model->store.get();
    return {std::move(model), store};
}

/// `model`, whose first graph and end the observer is told of.
std::shared_ptr<StreamedModel> LoadSource::observed(std::shared_ptr<StreamedModel> model) {
    StreamedModel *seen = model.get();
    ILoadObserver *observer = observer_;
    seen->runtime->on_first_graph(
        [observer, seen](const ggml_cgraph *graph) { observer->first_graph(*seen, graph); });
    return {seen, [observer, kept = std::move(model)](StreamedModel *ended) { observer->freed(*ended); }};
}

void LoadSource::will_load(const streaming::StreamedStore &store) {
    if (observer_ == nullptr) {
        return;
    }
    for (const auto &model : models()) {
        if (model->store.get() == &store) {
            observer_->will_load(*model);
        }
    }
}

} // namespace sluice::streaming

namespace sluice {

Status expect_model(const ModelOptions &options) {
    try {
        streaming::register_device();
        return streaming::LoadSource::instance().expect(options);
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, "out of memory while a model was announced");
    }
}

} // namespace sluice
