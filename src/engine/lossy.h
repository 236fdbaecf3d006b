// What of LossyOptions llama.cpp has to be told.
#pragma once

#include "model/gguf_directory.h"
#include "sluice/error.h"
#include "sluice/options.h"

#include "llama.h"

#include <vector>

namespace sluice::engine {

/// The model's metadata to override, ended by an entry without a key, as llama_model_params wants it. Errors:
/// InvalidArgument (a number of experts that the model does not have).
Result<std::vector<llama_model_kv_override>> metadata_overrides(const LossyOptions &lossy,
                                                                const model::GgufDirectory &directory);

} // namespace sluice::engine
