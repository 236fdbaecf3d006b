// Tiny models of the architectures whose experts differ: fused banks (gemma4) and biases (gpt-oss).
#include "model/make_model_recipes.h"

#include "ggml.h"

namespace sluice::model {

namespace {

constexpr int dense_type = GGML_TYPE_Q8_0;
constexpr double router_gain = 3; // logits of deviation 3: tokens differ clearly in their experts

// ---- gemma4: every second layer attends to a window only, and has smaller heads

constexpr int64_t gemma_width = 256;
constexpr int64_t gemma_heads = 4;
constexpr int64_t gemma_kv_heads = 2;
constexpr int64_t gemma_head_size = 64;
constexpr int64_t gemma_window_head_size = 32;
constexpr int64_t gemma_experts = 16;
constexpr int64_t gemma_inner = 96; // of one expert; no multiple of 256, as in the real model
constexpr int64_t gemma_dense_inner = 256;
constexpr int64_t gemma_per_layer = 32; // of one layer's share of a row of the per-layer table
constexpr int64_t gemma_vocabulary = 512;

/// The last layer is never windowed, so that the model's one rope table is always there.
bool gemma_windowed(int layer, int layers) {
    return (layers - 1 - layer) % 2 == 1;
}

void add_gemma_keys(PlanBuilder &plan, int layers) {
    std::vector<bool> windowed;
    for (int layer = 0; layer < layers; ++layer) {
        windowed.push_back(gemma_windowed(layer, layers));
    }
    plan.key("block_count", static_cast<uint32_t>(layers));
    plan.key("context_length", uint32_t{4096});
    plan.key("embedding_length", uint32_t{gemma_width});
    plan.key("embedding_length_per_layer_input", uint32_t{gemma_per_layer});
    plan.key("feed_forward_length", uint32_t{gemma_dense_inner});
    plan.key("expert_feed_forward_length", uint32_t{gemma_inner});
    plan.key("expert_count", uint32_t{gemma_experts});
    plan.key("expert_used_count", uint32_t{4});
    plan.key("attention.head_count", uint32_t{gemma_heads});
    plan.key("attention.head_count_kv", uint32_t{gemma_kv_heads});
    plan.key("attention.key_length", uint32_t{gemma_head_size});
    plan.key("attention.value_length", uint32_t{gemma_head_size});
    plan.key("attention.key_length_swa", uint32_t{gemma_window_head_size});
    plan.key("attention.value_length_swa", uint32_t{gemma_window_head_size});
    plan.key("attention.sliding_window", uint32_t{32});
    plan.key("attention.sliding_window_pattern", windowed);
    plan.key("attention.shared_kv_layers", uint32_t{0});
    plan.key("attention.layer_norm_rms_epsilon", 1e-6F);
    plan.key("rope.dimension_count", uint32_t{gemma_head_size});
    plan.key("rope.dimension_count_swa", uint32_t{gemma_window_head_size});
    plan.key("rope.freq_base", 1e6F);
    plan.key("rope.freq_base_swa", 1e4F);
    plan.key("final_logit_softcapping", 30.0F);
    plan.key("vocab_size", uint32_t{gemma_vocabulary});
}

void add_gemma_attention(PlanBuilder &plan, int layer, bool windowed) {
    const int64_t head = windowed ? gemma_window_head_size : gemma_head_size;
    const int64_t queries = gemma_heads * head;
    const int64_t keys = gemma_kv_heads * head;
    plan.values(layer_tensor(layer, "attn_norm.weight"), {gemma_width}, 1);
    plan.weight(layer_tensor(layer, "attn_q.weight"), dense_type, {gemma_width, queries});
    plan.weight(layer_tensor(layer, "attn_k.weight"), dense_type, {gemma_width, keys});
    plan.weight(layer_tensor(layer, "attn_v.weight"), dense_type, {gemma_width, keys});
    plan.weight(layer_tensor(layer, "attn_output.weight"), dense_type, {queries, gemma_width});
    // The architecture does not divide by the root of the head size, the key norms do so instead.
    plan.values(layer_tensor(layer, "attn_q_norm.weight"), {head}, 1);
    plan.values(layer_tensor(layer, "attn_k_norm.weight"), {head}, 0.125);
    plan.values(layer_tensor(layer, "post_attention_norm.weight"), {gemma_width}, 1);
}

void add_gemma_feed_forward(PlanBuilder &plan, int layer, int expert_type) {
    plan.values(layer_tensor(layer, "ffn_norm.weight"), {gemma_width}, 1);
    plan.weight(layer_tensor(layer, "ffn_gate.weight"), dense_type, {gemma_width, gemma_dense_inner});
    plan.weight(layer_tensor(layer, "ffn_up.weight"), dense_type, {gemma_width, gemma_dense_inner});
    plan.weight(layer_tensor(layer, "ffn_down.weight"), dense_type, {gemma_dense_inner, gemma_width});
    for (const char *norm : {"post_ffw_norm.weight", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight",
                             "post_ffw_norm_2.weight"}) {
        plan.values(layer_tensor(layer, norm), {gemma_width}, 1);
    }
    plan.weight(layer_tensor(layer, "ffn_gate_inp.weight"), GGML_TYPE_F32, {gemma_width, gemma_experts},
                router_gain);
    plan.values(layer_tensor(layer, "ffn_gate_inp.scale"), {gemma_width}, 16); // undoes a 1/sqrt(width)
    plan.weight(layer_tensor(layer, "ffn_gate_up_exps.weight"), expert_type,
                {gemma_width, 2 * gemma_inner, gemma_experts});
    plan.weight(layer_tensor(layer, "ffn_down_exps.weight"), expert_type,
                {gemma_inner, gemma_width, gemma_experts});
    plan.values(layer_tensor(layer, "ffn_down_exps.scale"), {gemma_experts}, 1);
}

// ---- gpt-oss

constexpr int64_t oss_width = 288; // a multiple of 32 and not of 256, as in the real model
constexpr int64_t oss_heads = 4;
constexpr int64_t oss_kv_heads = 2;
constexpr int64_t oss_head_size = 64;
constexpr int64_t oss_experts = 16;
constexpr int64_t oss_inner = 288;
constexpr int64_t oss_vocabulary = 512;
constexpr double bias_spread = 0.25;

void add_oss_keys(PlanBuilder &plan, int layers) {
    plan.key("block_count", static_cast<uint32_t>(layers));
    plan.key("context_length", uint32_t{131072});
    plan.key("embedding_length", uint32_t{oss_width});
    plan.key("feed_forward_length", uint32_t{oss_inner});
    plan.key("expert_feed_forward_length", uint32_t{oss_inner});
    plan.key("expert_count", uint32_t{oss_experts});
    plan.key("expert_used_count", uint32_t{4});
    plan.key("attention.head_count", uint32_t{oss_heads});
    plan.key("attention.head_count_kv", uint32_t{oss_kv_heads});
    plan.key("attention.key_length", uint32_t{oss_head_size});
    plan.key("attention.value_length", uint32_t{oss_head_size});
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
    PlanBuilder plan("gemma4", "tiny-gemma4");
    add_gemma_keys(plan, choice.layers);
    const int64_t table_width = gemma_per_layer * choice.layers;
    // The table is also the output: weak rows and a strong last norm keep the model from echoing its input.
    plan.weight("token_embd.weight", dense_type, {gemma_width, gemma_vocabulary}, 0.25);
    plan.weight("per_layer_token_embd.weight", dense_type, {table_width, gemma_vocabulary}, 4);
    plan.weight("per_layer_model_proj.weight", GGML_TYPE_F16, {gemma_width, table_width}, 4);
    plan.values("per_layer_proj_norm.weight", {gemma_per_layer}, 1);
    plan.values("output_norm.weight", {gemma_width}, 8);
    plan.values("rope_freqs.weight", {gemma_head_size / 2}, 1);
    for (int layer = 0; layer < choice.layers; ++layer) {
        add_gemma_attention(plan, layer, gemma_windowed(layer, choice.layers));
        add_gemma_feed_forward(plan, layer, choice.expert_type);
        plan.weight(layer_tensor(layer, "inp_gate.weight"), dense_type, {gemma_width, gemma_per_layer});
        plan.weight(layer_tensor(layer, "proj.weight"), dense_type, {gemma_per_layer, gemma_width});
        plan.values(layer_tensor(layer, "post_norm.weight"), {gemma_width}, 1);
        plan.values(layer_tensor(layer, "layer_output_scale.weight"), {1}, 1);
    }
    return plan.take();
}

ModelPlan plan_tiny_gpt_oss(const RecipeChoice &choice) {
    PlanBuilder plan("gpt-oss", "tiny-gpt-oss");
    add_oss_keys(plan, choice.layers);
    plan.weight("token_embd.weight", dense_type, {oss_width, oss_vocabulary}, 16);
    plan.values("output_norm.weight", {oss_width}, 1);
    plan.weight("output.weight", dense_type, {oss_width, oss_vocabulary}, 2);
    const int64_t queries = oss_heads * oss_head_size;
    const int64_t keys = oss_kv_heads * oss_head_size;
    const int experts = choice.expert_type;
    for (int layer = 0; layer < choice.layers; ++layer) {
        plan.values(layer_tensor(layer, "attn_norm.weight"), {oss_width}, 1);
        add_biased(plan, layer, "attn_q", dense_type, {oss_width, queries});
        add_biased(plan, layer, "attn_k", dense_type, {oss_width, keys});
        add_biased(plan, layer, "attn_v", dense_type, {oss_width, keys});
        add_biased(plan, layer, "attn_output", dense_type, {queries, oss_width});
        plan.values(layer_tensor(layer, "attn_sinks.weight"), {oss_heads}, 0, 1);
        plan.values(layer_tensor(layer, "post_attention_norm.weight"), {oss_width}, 1);
        add_biased(plan, layer, "ffn_gate_inp", GGML_TYPE_F32, {oss_width, oss_experts}, router_gain);
        add_biased(plan, layer, "ffn_gate_exps", experts, {oss_width, oss_inner, oss_experts});
        add_biased(plan, layer, "ffn_up_exps", experts, {oss_width, oss_inner, oss_experts});
        add_biased(plan, layer, "ffn_down_exps", experts, {oss_inner, oss_width, oss_experts});
    }
    return plan.take();
}

} // namespace sluice::model
