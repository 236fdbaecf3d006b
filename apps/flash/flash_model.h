// What the panel asks of the streamed models of this process, and what it has them do. A port: tests imagine
// models.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "counts.h"
#include "options/options.h"
#include "session/model.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::flash {

/// The experts of one layer.
struct LayerUse {
    std::vector<uint32_t> asked; ///< how often each was asked for, in all
    std::vector<bool> there;     ///< all of its slices are in the cache, or on their way
};

/// Where the expert cache stands, in bytes; all 0 before there is one.
struct CacheFacts {
    uint64_t limit = 0;
    uint64_t capacity = 0;
    uint64_t held = 0;
    uint64_t minimum = 0;
};

/// What is told of a model as it is now.
struct ModelFacts {
    ModelOptions options; ///< as it was loaded, but for what was changed since: lookahead, lossy
    uint64_t file_bytes = 0;
    uint64_t streamed_bytes = 0;
    uint64_t dense_bytes = 0;
    uint64_t mapped_bytes = 0;
    bool can_look_ahead = false; ///< its graphs can guess, so that guessing can be turned on
    std::optional<Error> last_error;
    CacheFacts cache;
    ExpertStats experts;
    RowStats rows;
    std::vector<RowTableInfo> tables;
    std::vector<SettledSetting> settled;
    uint64_t tokens_tried = 0;
};

/// One streamed model. Thread-safe; nothing waits for a graph that is being computed.
class IFlashModel {
public:
    virtual ~IFlashModel() = default;

    [[nodiscard]] virtual uint64_t id() const = 0; ///< never another model's in this process
    [[nodiscard]] virtual ModelFacts facts() const = 0;
    [[nodiscard]] virtual Counts counts() const = 0;
    /// A graph is being computed, and its counts come when it has ended.
    [[nodiscard]] virtual bool is_computing() const = 0;
    [[nodiscard]] virtual uint64_t cache_held_bytes() const = 0;
    /// In the order in which a token meets them; empty before the first graph.
    [[nodiscard]] virtual std::vector<LayerUse> layers() const = 0;
    /// Looks at some thousand pages: a few milliseconds.
    [[nodiscard]] virtual DenseResidency dense_residency() const = 0;

    /// As of backend::StreamRuntime.
    virtual Status limit_cache(std::optional<uint64_t> bytes) = 0;
    virtual Status set_lookahead(std::optional<uint32_t> experts) = 0;
    virtual void set_lossy(float drop_cold, float substitute) = 0;
    virtual uint64_t trim() = 0;
};

/// All streamed models that are loaded now. Thread-safe.
class IFlashModels {
public:
    virtual ~IFlashModels() = default;
    virtual std::vector<std::shared_ptr<IFlashModel>> models() = 0;
};

} // namespace sluice::flash
