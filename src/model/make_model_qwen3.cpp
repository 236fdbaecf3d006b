// The Qwen3 family: with experts in real and tiny shapes, and dense.
#include "model/make_model_recipes.h"

#include "ggml.h"

namespace sluice::model {

namespace {

constexpr double router_gain = 3; // logits of deviation 3: tokens differ clearly in their experts

struct Qwen3Shape {
    int64_t embedding = 256;
    int64_t heads = 4;
    int64_t kv_heads = 2;
    int64_t head_size = 64;
    int64_t experts = 16; ///< 0: a dense model
    int64_t experts_used = 4;
    int64_t feed_forward = 256; ///< of one expert, or of the dense block
    int64_t dense_feed_forward = 256;
    int64_t vocabulary = 512;
    int64_t context = 4096;
    int embedding_type = GGML_TYPE_Q8_0;
    int attention_type = GGML_TYPE_Q8_0;
    int output_type = GGML_TYPE_Q8_0;
    bool tied = false;
};

struct ExpertTypes {
    int gate_up;
    int down;
};

uint32_t u32(int64_t value) {
    return static_cast<uint32_t>(value);
}

PlanBuilder start(const Qwen3Shape &shape, std::string_view name, int layers) {
    PlanBuilder plan(shape.experts > 0 ? "qwen3moe" : "qwen3", name);
    plan.key("block_count", u32(layers));
    plan.key("context_length", u32(shape.context));
    plan.key("embedding_length", u32(shape.embedding));
    plan.key("feed_forward_length", u32(shape.dense_feed_forward));
    plan.key("attention.head_count", u32(shape.heads));
    plan.key("attention.head_count_kv", u32(shape.kv_heads));
    plan.key("attention.key_length", u32(shape.head_size));
    plan.key("attention.value_length", u32(shape.head_size));
    plan.key("attention.layer_norm_rms_epsilon", 1e-6F);
    plan.key("rope.freq_base", 1e6F);
    plan.key("vocab_size", u32(shape.vocabulary));
    if (shape.experts > 0) {
        plan.key("expert_count", u32(shape.experts));
        plan.key("expert_used_count", u32(shape.experts_used));
        plan.key("expert_feed_forward_length", u32(shape.feed_forward));
    }
    // A tied table scores each token by its own row: strong rows would make the model echo its input,
    // so they are weak and the last norm makes up for it.
    plan.weight("token_embd.weight", shape.embedding_type, {shape.embedding, shape.vocabulary},
                shape.tied ? 1 : 16);
    plan.values("output_norm.weight", {shape.embedding}, shape.tied ? 4 : 1);
    if (!shape.tied) {
        plan.weight("output.weight", shape.output_type, {shape.embedding, shape.vocabulary}, 2);
    }
    return plan;
}

void add_attention(PlanBuilder &plan, const Qwen3Shape &shape, int layer) {
    const int64_t queries = shape.heads * shape.head_size;
    const int64_t keys = shape.kv_heads * shape.head_size;
    const int type = shape.attention_type;
    plan.values(layer_tensor(layer, "attn_norm.weight"), {shape.embedding}, 1);
    plan.weight(layer_tensor(layer, "attn_q.weight"), type, {shape.embedding, queries});
    plan.weight(layer_tensor(layer, "attn_k.weight"), type, {shape.embedding, keys});
    plan.weight(layer_tensor(layer, "attn_v.weight"), type, {shape.embedding, keys});
    plan.weight(layer_tensor(layer, "attn_output.weight"), type, {queries, shape.embedding});
    plan.values(layer_tensor(layer, "attn_q_norm.weight"), {shape.head_size}, 1);
    plan.values(layer_tensor(layer, "attn_k_norm.weight"), {shape.head_size}, 1);
    plan.values(layer_tensor(layer, "ffn_norm.weight"), {shape.embedding}, 1);
}

void add_experts(PlanBuilder &plan, const Qwen3Shape &shape, int layer, ExpertTypes types) {
    const int64_t width = shape.embedding;
    const int64_t inner = shape.feed_forward;
    plan.weight(layer_tensor(layer, "ffn_gate_inp.weight"), GGML_TYPE_F32, {width, shape.experts},
                router_gain);
    plan.weight(layer_tensor(layer, "ffn_gate_exps.weight"), types.gate_up, {width, inner, shape.experts});
    plan.weight(layer_tensor(layer, "ffn_up_exps.weight"), types.gate_up, {width, inner, shape.experts});
    plan.weight(layer_tensor(layer, "ffn_down_exps.weight"), types.down, {inner, width, shape.experts}, 2);
}

template <typename TypesOfLayer>
ModelPlan plan_moe(const Qwen3Shape &shape, std::string_view name, int layers, TypesOfLayer types_of_layer) {
    PlanBuilder plan = start(shape, name, layers);
    for (int layer = 0; layer < layers; ++layer) {
        add_attention(plan, shape, layer);
        add_experts(plan, shape, layer, types_of_layer(layer));
    }
    return plan.take();
}

} // namespace

ModelPlan plan_qwen3_30b(const RecipeChoice &choice) {
    Qwen3Shape shape;
    shape.embedding = 2048;
    shape.heads = 32;
    shape.kv_heads = 4;
    shape.head_size = 128;
    shape.experts = 128;
    shape.experts_used = 8;
    shape.feed_forward = 768;
    shape.dense_feed_forward = 6144;
    shape.vocabulary = 151936;
    shape.context = 40960;
    shape.embedding_type = GGML_TYPE_Q4_K;
    shape.attention_type = GGML_TYPE_Q4_K;
    shape.output_type = GGML_TYPE_Q6_K;
    return plan_moe(shape, "qwen3-30b-a3b", choice.layers, [&choice](int layer) {
        if (choice.type_given) {
            return ExpertTypes{choice.expert_type, choice.expert_type};
        }
        // The layers to which a Q4_K_M file gives more bits: the first and last eighth, every third between.
        const int eighth = choice.real_layers / 8;
        const bool more = layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
        return ExpertTypes{GGML_TYPE_Q4_K, more ? GGML_TYPE_Q6_K : GGML_TYPE_Q4_K};
    });
}

ModelPlan plan_tiny_qwen3moe(const RecipeChoice &choice) {
    return plan_moe(Qwen3Shape{}, "tiny-qwen3moe", choice.layers, [&choice](int) {
        return ExpertTypes{choice.expert_type, choice.expert_type};
    });
}

ModelPlan plan_tiny_mixed(const RecipeChoice &choice) {
    return plan_moe(Qwen3Shape{}, "tiny-mixed", choice.layers, [&choice](int layer) {
        const bool even = layer % 2 == 0;
        return even ? ExpertTypes{choice.expert_type, GGML_TYPE_Q6_K}
                    : ExpertTypes{GGML_TYPE_Q6_K, choice.expert_type};
    });
}

ModelPlan plan_tiny_tied(const RecipeChoice &choice) {
    Qwen3Shape shape;
    shape.tied = true;
    return plan_moe(shape, "tiny-tied", choice.layers, [&choice](int) {
        return ExpertTypes{choice.expert_type, choice.expert_type};
    });
}

ModelPlan plan_tiny_dense(const RecipeChoice &choice) {
    Qwen3Shape shape;
    shape.experts = 0;
    shape.dense_feed_forward = 512;
    const int64_t inner = shape.dense_feed_forward;
    PlanBuilder plan = start(shape, "tiny-dense", choice.layers);
    for (int layer = 0; layer < choice.layers; ++layer) {
        add_attention(plan, shape, layer);
        plan.weight(layer_tensor(layer, "ffn_gate.weight"), GGML_TYPE_Q8_0, {shape.embedding, inner});
        plan.weight(layer_tensor(layer, "ffn_up.weight"), GGML_TYPE_Q8_0, {shape.embedding, inner});
        plan.weight(layer_tensor(layer, "ffn_down.weight"), GGML_TYPE_Q8_0, {inner, shape.embedding}, 2);
    }
    return plan.take();
}

} // namespace sluice::model
