// Put before llama.cpp's tools/server/server-context.cpp by the compiler (-include): what the server decodes
// is looked at before a token is drawn from it.
#pragma once

#include "llama.h" // it must not see the name defined below

namespace sluice::serve {

/// llama_decode(), which fails too (-3) where the model computed what is no number. That is said on standard
/// error; the requests that were computed get an error, and the server goes on.
int32_t decode(llama_context *context, llama_batch batch);

} // namespace sluice::serve

#define llama_decode sluice::serve::decode
