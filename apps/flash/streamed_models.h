// The panel's models as the engine has them.
#pragma once

#include "flash_model.h"
#include "streaming/model/streamed_model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::flash {

/// Thread-safe. A model that is freed while the panel looks at it stays readable until it has looked.
class StreamedModels final : public IFlashModels {
public:
    using Find = std::function<std::vector<std::shared_ptr<streaming::StreamedModel>>()>;

    /// `find`: all that are loaded now.
    explicit StreamedModels(Find find) : find_(std::move(find)) {}

    std::vector<std::shared_ptr<IFlashModel>> models() override;

private:
    struct Known {
        std::weak_ptr<streaming::StreamedModel> model;
        uint64_t id = 0;
    };
    uint64_t id_of(const std::shared_ptr<streaming::StreamedModel> &model);

    const Find find_;
    std::mutex mutex_; ///< guards all that follows
    std::vector<Known> known_;
    uint64_t next_id_ = 1;
};

} // namespace sluice::flash
