// Whether the ggml that loaded us is the one that we were built for.
#pragma once

#include "base/error.h"

namespace sluice::plugin {

/// Finds ggml's functions in the program, given an address in the library that called us, and compares what
/// can be told at run time: versions, and where the fields of ggml's structs are. Errors: Unsupported, a
/// sentence about the first difference; nothing of ggml is to be used then.
Status check_host(const void *caller);

} // namespace sluice::plugin
