// Which loads that are not our own loader's are streamed: those of files that were announced, or, for a
// plug-in, of any file with experts.
//
// A loader tells the device nothing about the file. But it holds it open, and asks about tensors: the file is
// the one, of those that the process holds open, that has them.
#pragma once

#include "options/options.h"
#include "platform/open_files.h"
#include "streaming/model/streamed_model.h"
#include "streaming/weights/load_target.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace sluice::streaming {

/// Told what becomes of the models whose loads were found. Called by whoever loads, computes or frees, and
/// not at once for one model; it must not throw.
class ILoadObserver {
public:
    virtual ~ILoadObserver() = default;
    virtual void will_load(const StreamedModel &model) = 0; ///< its weights are about to get memory
    virtual void first_graph(const StreamedModel &model,
                             const ggml_cgraph *graph) = 0; ///< is about to be computed, the cache is there
    virtual void freed(const StreamedModel &model) = 0;     ///< nothing of it computes any more
};

/// One for the process: part of the registration with ggml. Thread-safe.
class LoadSource final : public streaming::ILoadSource {
public:
    /// The one there is; the first call makes it the source of loads. Somebody registers the device.
    static LoadSource &instance();

    /// `observer` outlives every load; null: nobody is told. Before the first load.
    void set_observer(ILoadObserver *observer) { observer_ = observer; }

    /// Loads of `options.path` are streamed as `options` say from now on, until it is announced anew.
    /// Errors: NotFound; as GgufDirectory::open().
    Status expect(const ModelOptions &options);

    /// Any file with experts is streamed as `options` say, whatever its path.
    void take_any(const ModelOptions &options);

    /// The streamed models that are loaded, or being loaded, in the order of their loads. Those that a Model
    /// holds are not among them.
    [[nodiscard]] std::vector<std::shared_ptr<StreamedModel>> models();

    streaming::FoundLoad find(const ggml_tensor *weight) override;
    void will_load(const streaming::StreamedStore &store) override;

private:
    /// An open file that may be what is being loaded.
    struct Candidate {
        platform::OpenFile file;
        ModelOptions options;
        std::shared_ptr<const gguf::GgufDirectory> directory;
    };

    std::vector<Candidate> candidates(const ggml_tensor *weight);
    std::optional<ModelOptions> options_for(const platform::OpenFile &file) const;
    std::shared_ptr<const gguf::GgufDirectory> directory_of(const Candidate &candidate);
    [[nodiscard]] bool is_ours(int descriptor) const;
    std::shared_ptr<streaming::StreamedStore> begin(Candidate candidate);
    std::shared_ptr<StreamedModel> observed(std::shared_ptr<StreamedModel> model);

    ILoadObserver *observer_ = nullptr;

    std::mutex mutex_; ///< guards all that follows
    std::map<platform::FileKey, ModelOptions> expected_;
    std::optional<ModelOptions> any_;
    std::vector<std::weak_ptr<StreamedModel>> models_;
    std::set<platform::FileKey> refused_; ///< files that cannot be streamed or have nothing to stream
};

} // namespace sluice::streaming
