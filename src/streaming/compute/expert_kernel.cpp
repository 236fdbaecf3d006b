#include "streaming/compute/expert_kernel.h"

#include <algorithm>
#include <cstring>

namespace sluice::streaming {

namespace {

const ggml_type_traits_cpu &traits_of(const ggml_tensor *node) {
    return *ggml_get_type_traits_cpu(node->src[0]->type);
}

bool needs_conversion(const ggml_tensor *node) {
    return node->src[1]->type != traits_of(node).vec_dot_type;
}

float *output_row(const ggml_tensor *node, TokenUse use) {
    return reinterpret_cast<float *>(static_cast<char *>(node->data) + use.position * node->nb[1] +
                                     use.token * node->nb[2]);
}

const std::byte *activation_row(const ActivationView &activations, TokenUse use) {
    const ggml_tensor *source = activations.source;
    const int64_t column = use.position % source->ne[1];
    if (activations.converted != nullptr) {
        return activations.converted +
               static_cast<size_t>(column + use.token * source->ne[1]) * activations.row_bytes;
    }
    return static_cast<const std::byte *>(source->data) + static_cast<size_t>(column) * source->nb[1] +
           static_cast<size_t>(use.token) * source->nb[2];
}

// Enough blocks for a piece to be worth claiming, few enough to share one row between threads.
constexpr int64_t kElementsPerPiece = 1024;

int64_t blocks_per_piece(int64_t block) {
    return std::max<int64_t>(1, kElementsPerPiece / block);
}

} // namespace

bool kernel_supports(const ggml_tensor *node) {
    const ggml_tensor *weight = node->src[0];
    const ggml_tensor *source = node->src[1];
    const ggml_type_traits_cpu &traits = traits_of(node);
    const bool convertible = source->type == traits.vec_dot_type ||
                             (source->type == GGML_TYPE_F32 &&
                              ggml_get_type_traits_cpu(traits.vec_dot_type)->from_float != nullptr);
    return traits.vec_dot != nullptr && convertible && weight->nb[0] == ggml_type_size(weight->type) &&
           weight->ne[3] == 1 && source->ne[3] == 1 && node->src[2]->ne[2] == 1 && node->src[2]->ne[3] == 1 &&
           source->nb[0] == ggml_type_size(source->type) && node->type == GGML_TYPE_F32 &&
           node->nb[0] == sizeof(float);
}

bool stock_has_batch_path(const ggml_tensor *node) {
    constexpr int64_t kStockPanelMinimum = 8;
    if (node->src[2]->ne[1] == 1 || node->src[2]->ne[0] * node->src[2]->ne[1] < kStockPanelMinimum) {
        // One token uses an expert once, or a few times where experts are chosen in chunks: never that often.
        return false;
    }
    switch (node->src[0]->type) {
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ4_XS:
        return true;
    default:
        return false;
    }
}

size_t converted_bytes(const ggml_tensor *node) {
    if (!needs_conversion(node)) {
        return 0;
    }
    const ggml_tensor *source = node->src[1];
    return ggml_row_size(traits_of(node).vec_dot_type, source->ne[0]) *
           static_cast<size_t>(source->ne[1] * source->ne[2]);
}

int64_t conversion_pieces(const ggml_tensor *node) {
    if (!needs_conversion(node)) {
        return 0;
    }
    const ggml_tensor *source = node->src[1];
    const int64_t block = ggml_blck_size(traits_of(node).vec_dot_type);
    const int64_t blocks = source->ne[0] / block;
    const int64_t per_row = (blocks + blocks_per_piece(block) - 1) / blocks_per_piece(block);
    return per_row * source->ne[1] * source->ne[2];
}

void convert_activations(const ggml_tensor *node, int64_t piece, std::byte *into) {
    const ggml_tensor *source = node->src[1];
    const ggml_type type = traits_of(node).vec_dot_type;
    const int64_t block = ggml_blck_size(type);
    const int64_t blocks = source->ne[0] / block;
    const int64_t step = blocks_per_piece(block);
    const int64_t per_row = (blocks + step - 1) / step;

    const int64_t row = piece / per_row;
    const int64_t first = piece % per_row * step;
    const int64_t count = std::min(step, blocks - first);
    const char *from = static_cast<const char *>(source->data) + row % source->ne[1] * source->nb[1] +
                       row / source->ne[1] * source->nb[2] + first * block * sizeof(float);
    std::byte *to = into + static_cast<size_t>(row) * ggml_row_size(type, source->ne[0]) +
                    static_cast<size_t>(first) * ggml_type_size(type);
    ggml_get_type_traits_cpu(type)->from_float(reinterpret_cast<const float *>(from), to, count * block);
}

void multiply_rows(const ggml_tensor *node, SliceView slice, std::span<const TokenUse> uses,
                   const ActivationView &activations, int64_t row_begin, int64_t row_end) {
    // Rows in blocks that stay in the first-level cache while every token passes over them.
    constexpr int64_t kRowsPerBlock = ExpertLayout::kGroupRows;
    const ggml_tensor *weight = node->src[0];
    const ggml_vec_dot_t vec_dot = traits_of(node).vec_dot;
    const int elements = static_cast<int>(weight->ne[0]);
    const int64_t step = uses.size() > 1 ? kRowsPerBlock : row_end - row_begin;
    for (int64_t block = row_begin; block < row_end; block += step) {
        const int64_t block_end = std::min(block + step, row_end);
        for (const TokenUse use : uses) {
            const std::byte *activation = activation_row(activations, use);
            float *output = output_row(node, use);
            if (slice.layout != nullptr) {
                slice.layout->multiply(slice.data + static_cast<size_t>(block) * weight->nb[1], activation,
                                       output + block, block_end - block);
                continue;
            }
            for (int64_t row = block; row < block_end; ++row) {
                vec_dot(elements, output + row, 0, slice.data + static_cast<size_t>(row) * weight->nb[1], 0,
                        activation, 0, 1);
            }
        }
    }
}

void zero_rows(const ggml_tensor *node, std::span<const TokenUse> uses, int64_t row_begin, int64_t row_end) {
    for (const TokenUse use : uses) {
        std::memset(output_row(node, use) + row_begin, 0,
                    static_cast<size_t>(row_end - row_begin) * sizeof(float));
    }
}

} // namespace sluice::streaming
