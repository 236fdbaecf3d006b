// Tiny models of the architectures whose experts differ: fused banks (gemma4, which can be dense as well)
// and biases (gpt-oss).
#include "tools/make_model_parts.h"

#include "ggml.h"

namespace sluice::tools {

namespace {

constexpr int dense_type = GGML_TYPE_Q8_0;

// ---- gemma4: every second layer attends to a window only, and has smaller heads

constexpr int64_t gemma_width = 256;
constexpr int64_t gemma_dense_inner = 256;
constexpr AttentionShape gemma_attention;
constexpr AttentionShape gemma_windowed_attention{.head_size = 32};

struct GemmaShape {
    ExpertShape experts{.inner = 96}; ///< no multiple of 256, as in the real model; count 0: dense
    int64_t vocabulary = 512;
    int64_t per_layer = 32; ///< of one layer's share of a row of the per-layer table
    bool tied = true;
};

/// The last layer is never windowed, so that the model's one rope table is always there.
bool gemma_windowed(int layer, int layers) {
    return (layers - 1 - layer) % 2 == 1;
}

void add_gemma_keys(PlanBuilder &plan, const GemmaShape &shape, int layers) {
    std::vector<bool> windowed;
    windowed.reserve(static_cast<size_t>(layers));
    for (int layer = 0; layer < layers; ++layer) {
        windowed.push_back(gemma_windowed(layer, layers));
    }
    add_size_keys(plan, layers, 4096, gemma_width);
    plan.key("embedding_length_per_layer_input", u32(shape.per_layer));
    plan.key("feed_forward_length", uint32_t{gemma_dense_inner});
    if (shape.experts.count > 0) {
        add_expert_keys(plan, shape.experts);
    }
    add_attention_keys(plan, gemma_attention);
    plan.key("attention.key_length_swa", u32(gemma_windowed_attention.head_size));
    plan.key("attention.value_length_swa", u32(gemma_windowed_attention.head_size));
    plan.key("attention.sliding_window", uint32_t{32});
    plan.key("attention.sliding_window_pattern", windowed);
    plan.key("attention.shared_kv_layers", uint32_t{0});
    plan.key("attention.layer_norm_rms_epsilon", 1e-6F);
    plan.key("rope.dimension_count", u32(gemma_attention.head_size));
    plan.key("rope.dimension_count_swa", u32(gemma_windowed_attention.head_size));
    plan.key("rope.freq_base", 1e6F);
    plan.key("rope.freq_base_swa", 1e4F);
    plan.key("final_logit_softcapping", 30.0F);
    plan.key("vocab_size", u32(shape.vocabulary));
}

void add_gemma_tables(PlanBuilder &plan, const GemmaShape &shape, int layers) {
    const int64_t table_width = shape.per_layer * layers;
    // The architecture multiplies the rows by the root of their width. A tied table is also the output: weak
    // rows and a strong last norm keep the model from echoing its input.
    plan.weight("token_embd.weight", dense_type, {gemma_width, shape.vocabulary}, shape.tied ? 0.25 : 1);
    plan.weight("per_layer_token_embd.weight", dense_type, {table_width, shape.vocabulary}, 4);
    plan.weight("per_layer_model_proj.weight", GGML_TYPE_F16, {gemma_width, table_width}, 4);
    plan.values("per_layer_proj_norm.weight", {shape.per_layer}, 1);
    plan.values("output_norm.weight", {gemma_width}, shape.tied ? 8 : 1);
    if (!shape.tied) {
        plan.weight("output.weight", dense_type, {gemma_width, shape.vocabulary}, 2);
    }
    plan.values("rope_freqs.weight", {gemma_attention.head_size / 2}, 1);
}

void add_gemma_attention(PlanBuilder &plan, int layer, const AttentionShape &shape) {
    plan.values(layer_tensor(layer, "attn_norm.weight"), {gemma_width}, 1);
    add_attention_weights(plan, layer, dense_type, gemma_width, shape);
    // The architecture does not divide by the root of the head size, the key norms do so instead.
    plan.values(layer_tensor(layer, "attn_q_norm.weight"), {shape.head_size}, 1);
    plan.values(layer_tensor(layer, "attn_k_norm.weight"), {shape.head_size}, 0.125);
    plan.values(layer_tensor(layer, "post_attention_norm.weight"), {gemma_width}, 1);
}

void add_gemma_experts(PlanBuilder &plan, int layer, const ExpertShape &shape, int type) {
    for (const char *norm : {"pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"}) {
        plan.values(layer_tensor(layer, norm), {gemma_width}, 1);
    }
    plan.weight(layer_tensor(layer, "ffn_gate_inp.weight"), GGML_TYPE_F32, {gemma_width, shape.count},
                router_gain);
    plan.values(layer_tensor(layer, "ffn_gate_inp.scale"), {gemma_width}, 16); // undoes a 1/sqrt(width)
    plan.weight(layer_tensor(layer, "ffn_gate_up_exps.weight"), type,
                {gemma_width, 2 * shape.inner, shape.count});
    plan.weight(layer_tensor(layer, "ffn_down_exps.weight"), type, {shape.inner, gemma_width, shape.count});
    plan.values(layer_tensor(layer, "ffn_down_exps.scale"), {shape.count}, 1);
}

ModelPlan plan_gemma(const GemmaShape &shape, std::string_view name, const RecipeChoice &choice) {
    PlanBuilder plan("gemma4", name);
    add_gemma_keys(plan, shape, choice.layers);
    add_gemma_tables(plan, shape, choice.layers);
    for (int layer = 0; layer < choice.layers; ++layer) {
        const bool windowed = gemma_windowed(layer, choice.layers);
        add_gemma_attention(plan, layer, windowed ? gemma_windowed_attention : gemma_attention);
        plan.values(layer_tensor(layer, "ffn_norm.weight"), {gemma_width}, 1);
        add_feed_forward(plan, layer, dense_type, gemma_width, gemma_dense_inner);
        plan.values(layer_tensor(layer, "post_ffw_norm.weight"), {gemma_width}, 1);
        if (shape.experts.count > 0) {
            add_gemma_experts(plan, layer, shape.experts, choice.expert_type);
        }
        plan.weight(layer_tensor(layer, "inp_gate.weight"), dense_type, {gemma_width, shape.per_layer});
        plan.weight(layer_tensor(layer, "proj.weight"), dense_type, {shape.per_layer, gemma_width});
        plan.values(layer_tensor(layer, "post_norm.weight"), {gemma_width}, 1);
        plan.values(layer_tensor(layer, "layer_output_scale.weight"), {1}, 1);
    }
    return plan.take();
}

// ---- gpt-oss

constexpr int64_t oss_width = 288; // a multiple of 32 and not of 256, as in the real model
constexpr AttentionShape oss_attention;
constexpr ExpertShape oss_experts{.inner = 288};
constexpr int64_t oss_vocabulary = 512;
constexpr double bias_spread = 0.25;

void add_oss_keys(PlanBuilder &plan, int layers) {
    add_size_keys(plan, layers, 131072, oss_width);
    plan.key("feed_forward_length", u32(oss_experts.inner));
    add_expert_keys(plan, oss_experts);
    add_attention_keys(plan, oss_attention);
    plan.key("attention.sliding_window", uint32_t{128});
    plan.key("attention.layer_norm_rms_epsilon", 1e-5F);
    plan.key("rope.freq_base", 150000.0F);
    plan.key("rope.scaling.type", std::string("yarn"));
    plan.key("rope.scaling.factor", 32.0F);
    plan.key("rope.scaling.original_context_length", uint32_t{4096});
    plan.key("vocab_size", uint32_t{oss_vocabulary});
}

/// A matrix with its bias: the bias has one value for each row, and a row of them for each expert.
void add_biased(PlanBuilder &plan, int layer, const std::string &part, int type, std::vector<int64_t> shape,
                double gain = 1) {
    const std::vector<int64_t> bias(shape.begin() + 1, shape.end());
    plan.weight(layer_tensor(layer, part + ".weight"), type, std::move(shape), gain);
    plan.values(layer_tensor(layer, part + ".bias"), bias, 0, bias_spread);
}

} // namespace

ModelPlan plan_tiny_gemma4(const RecipeChoice &choice) {
    return plan_gemma(GemmaShape{}, "tiny-gemma4", choice);
}

ModelPlan plan_tiny_gemma_dense(const RecipeChoice &choice) {
    GemmaShape shape;
    shape.experts.count = 0;
    shape.vocabulary = 2048;
    shape.per_layer = 64;
    shape.tied = false;
    return plan_gemma(shape, "tiny-gemma-dense", choice);
}

ModelPlan plan_tiny_gpt_oss(const RecipeChoice &choice) {
    PlanBuilder plan("gpt-oss", "tiny-gpt-oss");
    add_oss_keys(plan, choice.layers);
    add_vocabulary(plan, dense_type, dense_type, oss_width, oss_vocabulary);
    const int64_t queries = oss_attention.queries();
    const int64_t keys = oss_attention.keys();
    const int64_t count = oss_experts.count;
    const int64_t inner = oss_experts.inner;
    const int experts = choice.expert_type;
    for (int layer = 0; layer < choice.layers; ++layer) {
        plan.values(layer_tensor(layer, "attn_norm.weight"), {oss_width}, 1);
        add_biased(plan, layer, "attn_q", dense_type, {oss_width, queries});
        add_biased(plan, layer, "attn_k", dense_type, {oss_width, keys});
        add_biased(plan, layer, "attn_v", dense_type, {oss_width, keys});
        add_biased(plan, layer, "attn_output", dense_type, {queries, oss_width});
        plan.values(layer_tensor(layer, "attn_sinks.weight"), {oss_attention.heads}, 0, 1);
        plan.values(layer_tensor(layer, "post_attention_norm.weight"), {oss_width}, 1);
        add_biased(plan, layer, "ffn_gate_inp", GGML_TYPE_F32, {oss_width, count}, router_gain);
        add_biased(plan, layer, "ffn_gate_exps", experts, {oss_width, inner, count});
        add_biased(plan, layer, "ffn_up_exps", experts, {oss_width, inner, count});
        add_biased(plan, layer, "ffn_down_exps", experts, {inner, oss_width, count});
    }
    return plan.take();
}

} // namespace sluice::tools
