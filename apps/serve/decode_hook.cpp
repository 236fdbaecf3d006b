#include "decode_hook.h"

#include "session/output_check.h"

#include <cstdio>

#undef llama_decode

namespace sluice::serve {

int32_t decode(llama_context *context, llama_batch batch) {
    constexpr int32_t kComputeError = -3; // of llama_decode()'s codes: a graph failed
    const int32_t code = llama_decode(context, batch);
    if (code != 0) {
        return code;
    }
    if (const auto numbers = session::check_outputs(context, batch); !numbers) {
        std::fprintf(stderr, "sluice: %s\n", numbers.error().message.c_str());
        session::clear_spoiled(context, batch);
        return kComputeError;
    }
    return 0;
}

} // namespace sluice::serve
