// The layouts that ggml has kernels of its own for: rows of a weight woven together ("repacked").
//
// Stock llama.cpp gives a weight such a layout while loading, if the CPU has a kernel for its type. A slot of
// the expert cache can be given the same layout after it was filled. ggml's kernels for it sum in another
// order than those for the file's layout, so a bank has one layout for as long as it is streamed.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice::streaming {

/// One bank's layout and kernel. Immutable, so thread-safe.
class ExpertLayout {
public:
    /// Rows are woven in groups; any number of rows that is a multiple of this, or reaches to the end of the
    /// slice, consists of whole groups.
    static constexpr int64_t kGroupRows = 16;

    /// The layout of `bank` (of shape [row elements, rows, experts]; only its type and shape are looked at),
    /// with a kernel that gave every byte that stock's MUL_MAT_ID gave in a trial on other weights of that
    /// type and row length. Null, and `why` says why, if stock leaves such a bank as it is in the file or no
    /// known kernel matches.
    static std::unique_ptr<ExpertLayout> find(const ggml_tensor *bank, std::string &why);

    /// Gives whole groups of rows, as in the file, that layout in their place. `spare` holds a copy
    /// meanwhile; it grows to rows.size(). Throws std::bad_alloc with the rows as they were.
    void arrange(std::span<std::byte> rows, std::vector<std::byte> &spare) const;

    /// output[i] = row i x activation, for `count` rows (whole groups) that were arranged. `activation` is a
    /// row in the type's vec_dot type.
    void multiply(const std::byte *rows, const std::byte *activation, float *output, int64_t count) const;

private:
    using Kernel = void (*)(int, float *, size_t, const void *, const void *, int, int);
    struct BufferDeleter {
        void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
    };
    using BufferPointer = std::unique_ptr<ggml_backend_buffer, BufferDeleter>;

    ExpertLayout(const ggml_tensor *bank, BufferPointer buffer);
    [[nodiscard]] bool gives(std::span<const float> expected, std::span<const float> activations,
                             std::vector<std::byte> weights) const;

    BufferPointer buffer_; ///< holds no weights; of the type that knows the layout
    ggml_tensor rows_{};   ///< what arrange() copies: type, row length, layout
    Kernel kernel_ = nullptr;
};

} // namespace sluice::streaming
