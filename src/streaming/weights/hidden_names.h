// The names that tensors do without while a model loads: the loader looks bytes up by name, and what it does
// not find it does not read.
#pragma once

#include "ggml.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sluice::streaming {

/// One load's, used by the loading thread. A tensor is written to by hide() and restore() only. Between them
/// it must be there, or forget() must have been told that its memory is going: llama.cpp frees tensors with
/// their buffers.
class HiddenNames {
public:
    /// Gives `tensor` a name for which `is_taken` says no, and notes the one it had. Throws std::bad_alloc
    /// with the name as it was.
    void hide(ggml_tensor *tensor, const std::function<bool(const std::string &)> &is_taken);

    /// The buffer [base, base+size) is being freed: names of tensors whose bytes were in it when they were
    /// hidden stay hidden. The tensors may be gone already and are not looked at.
    void forget(const void *base, size_t size);

    /// Puts the names back that are still hidden. Afterwards none is.
    void restore();

    /// How many restore() would put back.
    [[nodiscard]] size_t count() const { return hidden_.size(); }

private:
    struct Hidden {
        ggml_tensor *tensor = nullptr;
        const void *data = nullptr;
        std::string name;
    };
    std::vector<Hidden> hidden_;
    size_t ever_hidden_ = 0;
};

} // namespace sluice::streaming
