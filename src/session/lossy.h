// What of LossyOptions llama.cpp has to be told.
#pragma once

#include "base/error.h"
#include "gguf/gguf_directory.h"
#include "options/options.h"

#include "llama.h"

#include <vector>

namespace sluice::session {

/// The model's metadata to override, ended by an entry without a key, as llama_model_params wants it. Errors:
/// InvalidArgument (a number of experts that the model does not have).
Result<std::vector<llama_model_kv_override>> metadata_overrides(const LossyOptions &lossy,
                                                                const gguf::GgufDirectory &directory);

} // namespace sluice::session
