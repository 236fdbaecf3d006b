// Streaming for models that other code loads with llama.cpp: a server, a draft, an app.
#pragma once

#include "base/error.h"
#include "options/options.h"

namespace sluice {

/// Whoever loads `options.path` in this process from now on, with llama_model_load_from_file() on any thread,
/// gets its experts streamed as `options` say; every context on that model computes with them. Such a load
/// must not map the file (load mode none or direct I/O, lazy mode off), or all of it is read. `options` that
/// only our own loader looks at have no effect: `mode_reason`, `progress`, `dense_weights` other
/// than anon and mmap. With `stream` of Never it is held in memory. Replaces what was said about the file
/// before. Thread-safe. Errors: NotFound, InvalidFormat and others, if the file's directory cannot be read.
Status expect_model(const ModelOptions &options);

} // namespace sluice
