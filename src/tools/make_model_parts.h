// Parts that models of several architectures have in common. Each adds its keys and tensors in a fixed
// order, which is part of a recipe's bytes.
#pragma once

#include "tools/make_model_recipes.h"

#include <cstdint>

namespace sluice::tools {

constexpr double router_gain = 3; // logits of deviation 3: tokens differ clearly in their experts

inline uint32_t u32(int64_t value) {
    return static_cast<uint32_t>(value);
}

struct AttentionShape {
    int64_t heads = 4;
    int64_t kv_heads = 2;
    int64_t head_size = 64;
    bool gated = false; ///< the query matrix gives a gate on the output as well

    [[nodiscard]] int64_t queries() const { return heads * head_size; }
    [[nodiscard]] int64_t keys() const { return kv_heads * head_size; }
};

struct ExpertShape {
    int64_t count = 16;
    int64_t used = 4;
    int64_t inner = 256;
};

/// The ggml_types of a layer's expert banks.
struct ExpertTypes {
    int gate_up;
    int down;
};

/// Layers, context and width.
void add_size_keys(PlanBuilder &plan, int layers, int64_t context, int64_t width);
void add_attention_keys(PlanBuilder &plan, const AttentionShape &shape);
void add_expert_keys(PlanBuilder &plan, const ExpertShape &shape);

/// Embedding table, last norm and an output matrix of its own; the table's values have deviation
/// 16 / sqrt(width).
void add_vocabulary(PlanBuilder &plan, int embedding_type, int output_type, int64_t width,
                    int64_t vocabulary);

/// An embedding table that is also the output, and the last norm. Such a table scores each token by its own
/// row: strong rows would make the model echo its input, so they are weak and the norm makes up for it.
void add_tied_vocabulary(PlanBuilder &plan, int type, int64_t width, int64_t vocabulary);

/// A tokenizer for `count` tokens (260 at least): bytes, " w", and " w0", " w1" and so on. Text made of such
/// words gives a token for each, any other text some for each byte.
void add_words(PlanBuilder &plan, int64_t count);

/// Query, key, value and output matrices, without norms.
void add_attention_weights(PlanBuilder &plan, int layer, int type, int64_t width,
                           const AttentionShape &shape);

/// A router and the banks of gate, up and down matrices.
void add_experts(PlanBuilder &plan, int layer, int64_t width, const ExpertShape &shape, ExpertTypes types);

/// A gated feed-forward block whose three matrices are called "ffn_gate<suffix>.weight" and so on.
void add_feed_forward(PlanBuilder &plan, int layer, int type, int64_t width, int64_t inner,
                      std::string_view suffix = "", double down_gain = 1);

} // namespace sluice::tools
