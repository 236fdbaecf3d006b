// A loaded model: dense weights in memory, experts wherever the mode says.
#pragma once

#include "base/error.h"
#include "options/options.h"
#include "streaming/model/model_info.h"

#include <memory>
#include <vector>

namespace sluice {

namespace session {
struct ModelState;
}

/// Movable handle; destroy sessions before their model. Sessions on one model share its expert cache and
/// compute one at a time.
class Model {
public:
    /// Loads `options.path`. With several models in one process, each has its own cache and readers.
    /// Errors: NotFound, PermissionDenied, InvalidFormat, InvalidArgument (io_threads, dense_weights that
    /// this build can't have), Io, OutOfMemory, Cancelled.
    static Result<Model> load(const ModelOptions &options);

    /// For tests and other engines: a handle on a model that was loaded some other way.
    static Model from_state(std::unique_ptr<session::ModelState> state);

    ~Model();
    Model(Model &&) noexcept;
    Model &operator=(Model &&) noexcept;

    [[nodiscard]] const ModelInfo &info() const;

    /// Weights that rows are gathered from, in the order they were loaded; empty without row streaming. How
    /// their indices come is known once a session exists.
    [[nodiscard]] std::vector<RowTableInfo> row_tables() const;

    /// The model's own chat template, if it has one.
    [[nodiscard]] bool has_chat_template() const;

    [[nodiscard]] session::ModelState &state() { return *state_; }

private:
    explicit Model(std::unique_ptr<session::ModelState> state);
    std::unique_ptr<session::ModelState> state_;
};

} // namespace sluice
