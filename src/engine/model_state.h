// What stands behind a Model handle.
#pragma once

#include "backend/stream_runtime.h"
#include "backend/streamed_store.h"
#include "model/gguf_directory.h"
#include "sluice/error.h"
#include "sluice/model.h"
#include "sluice/stats.h"
#include "storage/file.h"
#include "storage/switched_read_engine.h"

#include "llama.h"

#include <cstdint>
#include <memory>
#include <optional>

struct common_chat_templates;

namespace sluice::engine {

struct LlamaModelDeleter {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
struct ChatTemplatesDeleter {
    void operator()(common_chat_templates *templates) const;
};

/// Members in order of dependence: the llama model's buffers speak to the store, the store reads through the
/// engine, the engine reads the directory's files.
struct ModelState {
    ModelState() = default;
    ModelState(const ModelState &) = delete;
    ModelState &operator=(const ModelState &) = delete;

    ModelOptions options;
    ModelInfo info;
    std::unique_ptr<model::GgufDirectory> directory;
    std::unique_ptr<storage::SwitchedReadEngine> reads;
    std::unique_ptr<storage::IReadEngine> row_reads; ///< null without row streaming
    std::unique_ptr<backend::StreamedStore> store;   ///< null when resident
    std::unique_ptr<backend::StreamRuntime> runtime; ///< null when resident
    std::unique_ptr<llama_model, LlamaModelDeleter> llama;
    std::unique_ptr<common_chat_templates, ChatTemplatesDeleter> templates; ///< null without a template
};

/// Model::load with the file system to use for expert slices; tests inject faults there. (Dense weights are
/// read by llama.cpp itself.)
Result<std::unique_ptr<ModelState>> load_model(const ModelOptions &options, storage::IFileSystem &files);

/// Starts llama.cpp's backends on the first call. Thread-safe.
void init_llama();

/// How slices and slabs are read: past the page cache if that is wanted and all shards allow it.
storage::Access expert_access(const ModelOptions &options, const model::GgufDirectory &directory);

/// How a store for `options` is to be made, but for its read engines.
backend::StoreOptions store_options(const ModelOptions &options, storage::Access access);

/// Totals of the model's store, cache and readers. The model must be streaming.
ExpertStats expert_stats(const ModelState &model);

/// Totals of the model's row tables; all 0 if there are none. The model must be streaming.
RowStats row_stats(const ModelState &model);

} // namespace sluice::engine
