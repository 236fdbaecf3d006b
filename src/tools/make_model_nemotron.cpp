// A tiny hybrid: each layer is one of a Mamba-2 mixer, attention, or experts beside a shared one.
#include "tools/make_model_parts.h"

#include "ggml.h"

namespace sluice::tools {

namespace {

constexpr int dense_type = GGML_TYPE_Q8_0;

constexpr int64_t width = 288; // a multiple of 32 and not of 256, as in the real model
constexpr AttentionShape attention;
constexpr int64_t experts = 16;
constexpr int64_t expert_inner = 96;
constexpr int64_t shared_inner = 192;
constexpr int64_t vocabulary = 512;

constexpr int64_t mamba_inner = 256;
constexpr int64_t mamba_heads = 8;
constexpr int64_t mamba_groups = 2;
constexpr int64_t mamba_state = 32;
constexpr int64_t mamba_window = 4; // tokens that the convolution sees
constexpr int64_t mamba_convolved = mamba_inner + 2 * mamba_groups * mamba_state;
constexpr int64_t mamba_projected = mamba_inner + mamba_convolved + mamba_heads;

enum class Mixer { Mamba, Experts, Attention };

/// Every fourth layer attends, every second has experts: the least number of layers has each kind.
Mixer mixer_of(int layer) {
    constexpr Mixer cycle[] = {Mixer::Mamba, Mixer::Experts, Mixer::Attention, Mixer::Experts};
    return cycle[layer % 4];
}

/// The architecture has no key for a layer's kind: one with neither an inner width nor KV heads is Mamba.
void add_kinds(PlanBuilder &plan, int layers) {
    std::vector<uint32_t> inner;
    std::vector<uint32_t> attending;
    for (int layer = 0; layer < layers; ++layer) {
        const Mixer mixer = mixer_of(layer);
        inner.push_back(mixer == Mixer::Experts ? uint32_t{expert_inner} : 0);
        attending.push_back(mixer == Mixer::Attention ? u32(attention.kv_heads) : 0);
    }
    plan.key("feed_forward_length", inner);
    plan.key("attention.head_count_kv", attending);
}

void add_keys(PlanBuilder &plan, int layers) {
    add_size_keys(plan, layers, 4096, width);
    plan.key("vocab_size", uint32_t{vocabulary});
    plan.key("attention.head_count", u32(attention.heads));
    plan.key("attention.key_length", u32(attention.head_size));
    plan.key("attention.value_length", u32(attention.head_size));
    plan.key("attention.layer_norm_epsilon", 1e-5F);
    plan.key("attention.layer_norm_rms_epsilon", 1e-5F);
    plan.key("ssm.conv_kernel", uint32_t{mamba_window});
    plan.key("ssm.inner_size", uint32_t{mamba_inner});
    plan.key("ssm.state_size", uint32_t{mamba_state});
    plan.key("ssm.time_step_rank", uint32_t{mamba_heads});
    plan.key("ssm.group_count", uint32_t{mamba_groups});
    plan.key("expert_count", uint32_t{experts});
    plan.key("expert_used_count", uint32_t{4});
    plan.key("expert_feed_forward_length", uint32_t{expert_inner});
    plan.key("expert_shared_count", uint32_t{1});
    plan.key("expert_shared_feed_forward_length", uint32_t{shared_inner});
    plan.key("expert_weights_norm", true);
    plan.key("expert_weights_scale", 2.5F);
    add_kinds(plan, layers);
}

void add_mamba(PlanBuilder &plan, int layer) {
    plan.weight(layer_tensor(layer, "ssm_in.weight"), dense_type, {width, mamba_projected});
    plan.weight(layer_tensor(layer, "ssm_conv1d.weight"), GGML_TYPE_F32, {mamba_window, mamba_convolved});
    plan.values(layer_tensor(layer, "ssm_conv1d.bias"), {mamba_convolved}, 0, 0.25);
    plan.values(layer_tensor(layer, "ssm_dt.bias"), {mamba_heads}, 0, 1);
    plan.values(layer_tensor(layer, "ssm_a"), {1, mamba_heads}, -1); // below 0: the state decays
    plan.values(layer_tensor(layer, "ssm_d"), {1, mamba_heads}, 1);
    plan.values(layer_tensor(layer, "ssm_norm.weight"), {mamba_inner / mamba_groups, mamba_groups}, 1);
    plan.weight(layer_tensor(layer, "ssm_out.weight"), dense_type, {mamba_inner, width});
}

/// Experts without a gate matrix: up, a squared ReLU, down.
void add_ungated_experts(PlanBuilder &plan, int layer, int type) {
    plan.weight(layer_tensor(layer, "ffn_gate_inp.weight"), GGML_TYPE_F32, {width, experts}, router_gain);
    plan.values(layer_tensor(layer, "exp_probs_b.bias"), {experts}, 0, 0.0625);
    plan.weight(layer_tensor(layer, "ffn_up_exps.weight"), type, {width, expert_inner, experts});
    plan.weight(layer_tensor(layer, "ffn_down_exps.weight"), type, {expert_inner, width, experts});
    plan.weight(layer_tensor(layer, "ffn_up_shexp.weight"), dense_type, {width, shared_inner});
    plan.weight(layer_tensor(layer, "ffn_down_shexp.weight"), dense_type, {shared_inner, width});
}

} // namespace

ModelPlan plan_tiny_nemotron_h_moe(const RecipeChoice &choice) {
    PlanBuilder plan("nemotron_h_moe", "tiny-nemotron-h-moe");
    add_keys(plan, choice.layers);
    add_vocabulary(plan, dense_type, dense_type, width, vocabulary);
    for (int layer = 0; layer < choice.layers; ++layer) {
        plan.values(layer_tensor(layer, "attn_norm.weight"), {width}, 1); // before the mixer of any kind
        switch (mixer_of(layer)) {
        case Mixer::Mamba:
            add_mamba(plan, layer);
            break;
        case Mixer::Experts:
            add_ungated_experts(plan, layer, choice.expert_type);
            break;
        case Mixer::Attention:
            add_attention_weights(plan, layer, dense_type, width, attention);
            break;
        }
    }
    return plan.take();
}

} // namespace sluice::tools
