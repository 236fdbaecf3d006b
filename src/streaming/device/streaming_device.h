// Sluice's one registration with ggml: a device whose buffer type holds weights that are not in memory.
//
// Which weights go there is decided per load, by the store of the model that the thread loads
// (load_target.h). Contexts made afterwards get an intercepted CPU backend (intercepted_backend.h) from the
// same device.
#pragma once

#include "streaming/weights/streamed_store.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <vector>

namespace sluice::streaming {

/// What ggml is to register, there for the life of the process. Thread-safe.
ggml_backend_reg_t streaming_registry();

/// Registers the device with ggml on the first call. Thread-safe. Never undone: ggml has no way to. Not for a
/// plug-in, which ggml registers itself.
void register_device();

/// The buffer type of streamed weights: address space, not memory.
ggml_backend_buffer_type_t streamed_buffer_type();

/// While it lives, collects the intercepted backends that llama.cpp makes on this thread: those of the
/// context being created. Scopes on one thread do not nest.
class ContextScope {
public:
    ContextScope();
    ~ContextScope();
    ContextScope(const ContextScope &) = delete;
    ContextScope &operator=(const ContextScope &) = delete;

    [[nodiscard]] const std::vector<ggml_backend_t> &backends() const { return backends_; }

private:
    friend ggml_backend_t init_backend(ggml_backend_dev_t, const char *);
    std::vector<ggml_backend_t> backends_;
};

} // namespace sluice::streaming
