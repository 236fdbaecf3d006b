// What stands behind one streamed model, whoever loads it: our own loader, a server, a plug-in's host.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "gguf/gguf_directory.h"
#include "options/options.h"
#include "storage/switched_read_engine.h"
#include "streaming/model/model_info.h"
#include "streaming/runtime/stream_runtime.h"
#include "streaming/weights/streamed_store.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::streaming {

/// Members in order of dependence: the runtime acts on the store, the store reads through the engines, the
/// engines read the directory's files. The members are thread-safe as they say; which ones there are never
/// changes.
struct StreamedModel {
    StreamedModel() = default;
    StreamedModel(const StreamedModel &) = delete;
    StreamedModel &operator=(const StreamedModel &) = delete;

    /// Nothing is loaded yet: the store waits for the loader's questions. Errors: as Model::load().
    static Result<std::shared_ptr<StreamedModel>> make(const ModelOptions &options,
                                                       std::shared_ptr<const gguf::GgufDirectory> directory);

    ModelOptions options;
    std::shared_ptr<const gguf::GgufDirectory> directory;
    bool direct = false;        ///< reads of slices go past the page cache
    std::string direct_refusal; ///< why not, if they were wanted and don't
    std::string io_note;        ///< what was taken instead of the engine asked for, and why; else empty
    std::unique_ptr<storage::SwitchedReadEngine> reads;
    std::unique_ptr<storage::IReadEngine> row_reads; ///< null without row streaming
    std::unique_ptr<streaming::StreamedStore> store;
    std::unique_ptr<streaming::StreamRuntime> runtime;
};

/// Whether all shards can be read past the page cache.
bool all_direct(const gguf::GgufDirectory &directory);

/// How slices and slabs are read: past the page cache if that is wanted and all shards allow it.
platform::Access expert_access(const ModelOptions &options, const gguf::GgufDirectory &directory);

/// How a store for `options` is to be made, but for its read engines.
streaming::StoreOptions store_options(const ModelOptions &options, platform::Access access);

/// Totals of the model's store, cache and readers. Thread-safe.
ExpertStats expert_stats(const StreamedModel &model);

/// Totals of the model's row tables; all 0 if there are none. Thread-safe.
RowStats row_stats(const StreamedModel &model);

/// Weights that rows are gathered from, in the order they were loaded; empty without row streaming.
std::vector<RowTableInfo> row_tables(const StreamedModel &model);

} // namespace sluice::streaming
