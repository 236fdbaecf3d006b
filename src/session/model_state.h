// What stands behind a Model handle.
#pragma once

#include "base/error.h"
#include "base/stats.h"
#include "gguf/gguf_directory.h"
#include "platform/file.h"
#include "session/model.h"
#include "streaming/model/streamed_model.h"

#include "llama.h"

#include <cstdint>
#include <memory>
#include <optional>

struct common_chat_templates;

namespace sluice::session {

struct LlamaModelDeleter {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
struct ChatTemplatesDeleter {
    void operator()(common_chat_templates *templates) const;
};

/// Members in order of dependence: the llama model's buffers speak to the streamed model's store.
struct ModelState {
    ModelState() = default;
    ModelState(const ModelState &) = delete;
    ModelState &operator=(const ModelState &) = delete;

    ModelOptions options;
    ModelInfo info;
    std::shared_ptr<const gguf::GgufDirectory> directory;
    std::shared_ptr<streaming::StreamedModel> streamed; ///< null when resident
    std::unique_ptr<llama_model, LlamaModelDeleter> llama;
    std::unique_ptr<common_chat_templates, ChatTemplatesDeleter> templates; ///< null without a template
};

/// Model::load with the file system to use for expert slices; tests inject faults there. (Dense weights are
/// read by llama.cpp itself.)
Result<std::unique_ptr<ModelState>> load_model(const ModelOptions &options, platform::IFileSystem &files);

/// Starts llama.cpp's backends on the first call. Thread-safe.
void init_llama();

} // namespace sluice::session
