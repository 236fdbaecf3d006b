// ERNIE 4.5 with experts, in real and tiny shapes: a dense layer first, then routed experts beside shared
// ones that every token uses. All shared experts of a layer are one block, as wide as they are together.
#include "tools/make_model_parts.h"

#include "ggml.h"

namespace sluice::tools {

namespace {

struct ErnieShape {
    int64_t width = 256;
    AttentionShape attention;
    ExpertShape experts;
    int64_t shared = 2; ///< experts that every token uses, of the routed ones' size
    int64_t dense_inner = 512;
    int64_t vocabulary = 512;
    int64_t context = 4096;
    uint32_t step =
        1; ///< every so many layers the graph uses experts; the file has them in all but the first
};

/// The ggml_types of a layer's weights.
struct LayerTypes {
    int dense;      ///< of all that is not named below
    int dense_down; ///< of what leaves a dense or shared feed-forward block, and of the attention's values
    ExpertTypes experts;
};

/// ERNIE-4.5-21B-A3B.
ErnieShape real_shape() {
    return {.width = 2560,
            .attention = {.heads = 20, .kv_heads = 4, .head_size = 128},
            .experts = {.count = 64, .used = 6, .inner = 1536},
            .shared = 2,
            .dense_inner = 12288,
            .vocabulary = 103424,
            .context = 131072};
}

/// Whether a Q4_K_M file gives more bits to a layer: the first and last eighth, every third between.
bool more_bits(int layer, int layers) {
    const int eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

void add_keys(PlanBuilder &plan, const ErnieShape &shape, int layers) {
    add_size_keys(plan, layers, shape.context, shape.width);
    plan.key("feed_forward_length", u32(shape.dense_inner));
    add_attention_keys(plan, shape.attention);
    plan.key("attention.layer_norm_rms_epsilon", 1e-5F);
    plan.key("rope.freq_base", 500000.0F);
    plan.key("vocab_size", u32(shape.vocabulary));
    add_expert_keys(plan, shape.experts);
    plan.key("expert_shared_count", u32(shape.shared));
    plan.key("expert_shared_feed_forward_length", u32(shape.shared * shape.experts.inner));
    plan.key("interleave_moe_layer_step", shape.step);
    plan.key("leading_dense_block_count", uint32_t{1});
}

void add_attention(PlanBuilder &plan, int layer, const ErnieShape &shape, const LayerTypes &types) {
    const AttentionShape &attention = shape.attention;
    plan.values(layer_tensor(layer, "attn_norm.weight"), {shape.width}, 1);
    plan.weight(layer_tensor(layer, "attn_q.weight"), types.dense, {shape.width, attention.queries()});
    plan.weight(layer_tensor(layer, "attn_k.weight"), types.dense, {shape.width, attention.keys()});
    plan.weight(layer_tensor(layer, "attn_v.weight"), types.dense_down, {shape.width, attention.keys()});
    plan.weight(layer_tensor(layer, "attn_output.weight"), types.dense, {attention.queries(), shape.width});
}

/// A gated block that every token goes through.
void add_block(PlanBuilder &plan, int layer, const ErnieShape &shape, const LayerTypes &types, int64_t inner,
               const std::string &suffix) {
    plan.weight(layer_tensor(layer, "ffn_gate" + suffix), types.dense, {shape.width, inner});
    plan.weight(layer_tensor(layer, "ffn_up" + suffix), types.dense, {shape.width, inner});
    plan.weight(layer_tensor(layer, "ffn_down" + suffix), types.dense_down, {inner, shape.width}, 2);
}

template <typename TypesOfLayer>
ModelPlan plan_ernie(const ErnieShape &shape, std::string_view name, int table_type, int layers,
                     TypesOfLayer types_of_layer) {
    PlanBuilder plan("ernie4_5-moe", name);
    add_keys(plan, shape, layers);
    add_tied_vocabulary(plan, table_type, shape.width, shape.vocabulary);
    for (int layer = 0; layer < layers; ++layer) {
        const LayerTypes types = types_of_layer(layer);
        add_attention(plan, layer, shape, types);
        plan.values(layer_tensor(layer, "ffn_norm.weight"), {shape.width}, 1);
        if (layer == 0) {
            add_block(plan, layer, shape, types, shape.dense_inner, ".weight");
            continue;
        }
        add_experts(plan, layer, shape.width, shape.experts, types.experts);
        // Added to the routing probabilities, which are around 1 / count, when experts are chosen.
        plan.values(layer_tensor(layer, "exp_probs_b.bias"), {shape.experts.count}, 0,
                    0.125 / static_cast<double>(shape.experts.count));
        add_block(plan, layer, shape, types, shape.shared * shape.experts.inner, "_shexp.weight");
    }
    return plan.take();
}

ModelPlan plan_tiny(const ErnieShape &shape, std::string_view name, const RecipeChoice &choice) {
    return plan_ernie(shape, name, GGML_TYPE_Q8_0, choice.layers, [&choice](int) {
        return LayerTypes{.dense = GGML_TYPE_Q8_0,
                          .dense_down = GGML_TYPE_Q8_0,
                          .experts = {choice.expert_type, choice.expert_type}};
    });
}

} // namespace

ModelPlan plan_ernie_21b(const RecipeChoice &choice) {
    // As llama-quantize makes a Q4_K_M file: a tied table has the type of an output.
    return plan_ernie(real_shape(), "ernie-4.5-21b-a3b", GGML_TYPE_Q6_K, choice.layers, [&choice](int layer) {
        const int down = more_bits(layer, choice.real_layers) ? GGML_TYPE_Q6_K : GGML_TYPE_Q4_K;
        return LayerTypes{.dense = GGML_TYPE_Q4_K,
                          .dense_down = down,
                          .experts = choice.type_given ? ExpertTypes{choice.expert_type, choice.expert_type}
                                                       : ExpertTypes{GGML_TYPE_Q4_K, down}};
    });
}

ModelPlan plan_tiny_ernie(const RecipeChoice &choice) {
    return plan_tiny(ErnieShape{}, "tiny-ernie", choice);
}

ModelPlan plan_tiny_idle(const RecipeChoice &choice) {
    ErnieShape shape;
    shape.step = 2;
    return plan_tiny(shape, "tiny-idle", choice);
}

} // namespace sluice::tools
