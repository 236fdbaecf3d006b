// The arithmetic of an expert matmul: the same dot products, in the same order per element, as ggml's own.
//
// Every output element of MUL_MAT_ID on the CPU is one call of the type's vec_dot on one weight row and one
// converted activation row. Elements don't depend on how rows are shared out, so any split of rows over
// threads gives the same bytes. Where stock takes a different path (see stock_has_batch_path) we don't
// imitate it.
#pragma once

#include "streaming/weights/expert_layout.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::streaming {

/// One (token, expert position) pair that uses an expert: the row of `ids` and the column in it.
struct TokenUse {
    int32_t position = 0; ///< 0 .. experts per token - 1
    int32_t token = 0;    ///< 0 .. tokens in the ubatch - 1
};

/// How a MUL_MAT_ID node's activations are read: either the source itself or converted rows.
struct ActivationView {
    const ggml_tensor *source = nullptr;  ///< src1 of the node
    const std::byte *converted = nullptr; ///< rows in the weight's vec_dot type; null: read `source` as it is
    size_t row_bytes = 0;                 ///< bytes of a converted row
};

/// Whether our kernel can run this MUL_MAT_ID: layouts that stock asserts, and a vec_dot for the type.
bool kernel_supports(const ggml_tensor *node);

/// Whether stock may compute this node by something else than vec_dot per element (its panel kernels for
/// grid-based IQ types, from 8 tokens an expert on). Such nodes run on the stock kernel.
bool stock_has_batch_path(const ggml_tensor *node);

/// Bytes that convert_activations writes for `node`; 0 if its activations need no conversion.
size_t converted_bytes(const ggml_tensor *node);

/// Number of pieces convert_activations can be called for.
int64_t conversion_pieces(const ggml_tensor *node);

/// Converts piece `piece` of src1 of `node` to the weight's vec_dot type, into `into`
/// (converted_bytes(node) long). Pieces are independent.
void convert_activations(const ggml_tensor *node, int64_t piece, std::byte *into);

/// An expert's slice: ne[1] rows of nb[1] bytes.
struct SliceView {
    const std::byte *data = nullptr;
    const ExpertLayout *layout = nullptr; ///< null: as in the file
};

/// Computes weight rows [row_begin, row_end) of one expert for all its `uses`, into `node`'s data. Where the
/// slice has a layout, row_begin is a multiple of ExpertLayout::kGroupRows, and activations are converted.
void multiply_rows(const ggml_tensor *node, SliceView slice, std::span<const TokenUse> uses,
                   const ActivationView &activations, int64_t row_begin, int64_t row_end);

/// Writes zeros where multiply_rows would have written: for a graph that has failed and whose later nodes
/// must not meet memory that was never written.
void zero_rows(const ggml_tensor *node, std::span<const TokenUse> uses, int64_t row_begin, int64_t row_end);

} // namespace sluice::streaming
