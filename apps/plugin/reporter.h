// What the plug-in says on standard error of the models that it streams.
#pragma once

#include "streaming/model/load_source.h"

namespace sluice::plugin {

/// Nothing else would show a user of the program that its model is streamed, and how to do better.
/// Thread-safe.
class Reporter final : public streaming::ILoadObserver {
public:
    /// `summary`: counts when a model is freed.
    explicit Reporter(bool summary) : summary_(summary) {}

    void will_load(const streaming::StreamedModel &model) override;
    void first_graph(const streaming::StreamedModel &model, const ggml_cgraph *graph) override;
    void freed(const streaming::StreamedModel &model) override;

private:
    const bool summary_;
};

} // namespace sluice::plugin
