// Which loads that are not our own loader's are streamed: those of files that were announced, or, for a
// plug-in, of any file with experts.
//
// A loader tells the device nothing about the file. But it holds it open, and asks about tensors: the file is
// the one, of those that the process holds open, that has them.
#pragma once

#include "backend/load_target.h"
#include "engine/streamed_model.h"
#include "platform/open_files.h"
#include "sluice/options.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace sluice::engine {

/// One for the process: part of the registration with ggml. Thread-safe.
class LoadSource final : public backend::ILoadSource {
public:
    /// The one there is; the first call registers the device and makes it the source of loads.
    static LoadSource &instance();

    /// Loads of `options.path` are streamed as `options` say from now on, until it is announced anew.
    /// Errors: NotFound; as GgufDirectory::open().
    Status expect(const ModelOptions &options);

    /// Any file with experts is streamed as `options` say, whatever its path.
    void take_any(const ModelOptions &options);

    /// The streamed models that are loaded, or being loaded, in the order of their loads. Those that a Model
    /// holds are not among them.
    [[nodiscard]] std::vector<std::shared_ptr<StreamedModel>> models();

    backend::FoundLoad find(const ggml_tensor *weight) override;

private:
    /// An open file that may be what is being loaded.
    struct Candidate {
        platform::OpenFile file;
        ModelOptions options;
        std::shared_ptr<const model::GgufDirectory> directory;
    };

    std::vector<Candidate> candidates(const ggml_tensor *weight);
    std::optional<ModelOptions> options_for(const platform::OpenFile &file) const;
    std::shared_ptr<const model::GgufDirectory> directory_of(const Candidate &candidate);
    [[nodiscard]] bool is_ours(int descriptor) const;
    std::shared_ptr<backend::StreamedStore> begin(Candidate candidate);

    std::mutex mutex_; ///< guards all that follows
    std::map<platform::FileKey, ModelOptions> expected_;
    std::optional<ModelOptions> any_;
    std::vector<std::weak_ptr<StreamedModel>> models_;
    std::set<platform::FileKey> refused_; ///< files that cannot be streamed or have nothing to stream
};

} // namespace sluice::engine
