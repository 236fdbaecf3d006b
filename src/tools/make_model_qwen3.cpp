// The Qwen3 family: with experts in real and tiny shapes, and dense.
#include "tools/make_model_parts.h"

#include "ggml.h"

namespace sluice::tools {

namespace {

struct Qwen3Shape {
    int64_t embedding = 256;
    AttentionShape attention;
    ExpertShape experts; ///< count 0: a dense model
    int64_t dense_feed_forward = 256;
    int64_t vocabulary = 512;
    int64_t context = 4096;
    int embedding_type = GGML_TYPE_Q8_0;
    int attention_type = GGML_TYPE_Q8_0;
    int output_type = GGML_TYPE_Q8_0;
    bool tied = false;
    bool words = false; ///< a vocabulary that text can be made of
};

/// Qwen3-30B-A3B.
Qwen3Shape real_shape() {
    Qwen3Shape shape;
    shape.embedding = 2048;
    shape.attention = {.heads = 32, .kv_heads = 4, .head_size = 128};
    shape.experts = {.count = 128, .used = 8, .inner = 768};
    shape.dense_feed_forward = 6144;
    shape.vocabulary = 151936;
    shape.context = 40960;
    shape.embedding_type = GGML_TYPE_Q4_K;
    shape.attention_type = GGML_TYPE_Q4_K;
    shape.output_type = GGML_TYPE_Q6_K;
    return shape;
}

PlanBuilder start(const Qwen3Shape &shape, std::string_view name, int layers) {
    PlanBuilder plan(shape.experts.count > 0 ? "qwen3moe" : "qwen3", name);
    add_size_keys(plan, layers, shape.context, shape.embedding);
    plan.key("feed_forward_length", u32(shape.dense_feed_forward));
    add_attention_keys(plan, shape.attention);
    plan.key("attention.layer_norm_rms_epsilon", 1e-6F);
    plan.key("rope.freq_base", 1e6F);
    plan.key("vocab_size", u32(shape.vocabulary));
    if (shape.words) {
        add_words(plan, shape.vocabulary);
    }
    if (shape.experts.count > 0) {
        plan.key("expert_count", u32(shape.experts.count));
        plan.key("expert_used_count", u32(shape.experts.used));
        plan.key("expert_feed_forward_length", u32(shape.experts.inner));
    }
    if (shape.tied) {
        add_tied_vocabulary(plan, shape.embedding_type, shape.embedding, shape.vocabulary);
    } else {
        add_vocabulary(plan, shape.embedding_type, shape.output_type, shape.embedding, shape.vocabulary);
    }
    return plan;
}

void add_attention(PlanBuilder &plan, const Qwen3Shape &shape, int layer) {
    plan.values(layer_tensor(layer, "attn_norm.weight"), {shape.embedding}, 1);
    add_attention_weights(plan, layer, shape.attention_type, shape.embedding, shape.attention);
    plan.values(layer_tensor(layer, "attn_q_norm.weight"), {shape.attention.head_size}, 1);
    plan.values(layer_tensor(layer, "attn_k_norm.weight"), {shape.attention.head_size}, 1);
    plan.values(layer_tensor(layer, "ffn_norm.weight"), {shape.embedding}, 1);
}

template <typename TypesOfLayer>
ModelPlan plan_moe(const Qwen3Shape &shape, std::string_view name, int layers, TypesOfLayer types_of_layer) {
    PlanBuilder plan = start(shape, name, layers);
    for (int layer = 0; layer < layers; ++layer) {
        add_attention(plan, shape, layer);
        add_experts(plan, layer, shape.embedding, shape.experts, types_of_layer(layer));
    }
    return plan.take();
}

/// All experts in the type chosen.
ModelPlan plan_uniform(const Qwen3Shape &shape, std::string_view name, const RecipeChoice &choice) {
    return plan_moe(shape, name, choice.layers, [&choice](int) {
        return ExpertTypes{choice.expert_type, choice.expert_type};
    });
}

/// Unless a type was given: that of a Q4_K_M file, in which some of `layers` have more bits.
ModelPlan plan_medium(const Qwen3Shape &shape, std::string_view name, const RecipeChoice &choice,
                      int layers) {
    return plan_moe(shape, name, choice.layers, [&choice, layers](int layer) {
        if (choice.type_given) {
            return ExpertTypes{choice.expert_type, choice.expert_type};
        }
        // The layers to which a Q4_K_M file gives more bits: the first and last eighth, every third between.
        const int eighth = layers / 8;
        const bool more = layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
        return ExpertTypes{GGML_TYPE_Q4_K, more ? GGML_TYPE_Q6_K : GGML_TYPE_Q4_K};
    });
}

} // namespace

ModelPlan plan_qwen3_30b(const RecipeChoice &choice) {
    return plan_medium(real_shape(), "qwen3-30b-a3b", choice, choice.real_layers);
}

ModelPlan plan_qwen3_248k(const RecipeChoice &choice) {
    Qwen3Shape shape = real_shape();
    shape.vocabulary = 248320;
    shape.embedding_type = GGML_TYPE_Q8_0;
    shape.output_type = GGML_TYPE_Q4_K;
    return plan_medium(shape, "qwen3-248k", choice, choice.layers); // no model of its own: never cut
}

ModelPlan plan_qwen3_words(const RecipeChoice &choice) {
    Qwen3Shape shape = real_shape();
    shape.words = true;
    return plan_medium(shape, "qwen3-words", choice, choice.layers);
}

ModelPlan plan_tiny_qwen3moe(const RecipeChoice &choice) {
    return plan_uniform(Qwen3Shape{}, "tiny-qwen3moe", choice);
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
    return plan_uniform(shape, "tiny-tied", choice);
}

ModelPlan plan_tiny_vocab(const RecipeChoice &choice) {
    Qwen3Shape shape;
    shape.vocabulary = 8192;
    shape.embedding_type = GGML_TYPE_Q6_K; // rows of 210 bytes: many cross a page, and none is aligned
    return plan_uniform(shape, "tiny-vocab", choice);
}

ModelPlan plan_tiny_dense(const RecipeChoice &choice) {
    Qwen3Shape shape;
    shape.experts.count = 0;
    shape.dense_feed_forward = 512;
    PlanBuilder plan = start(shape, "tiny-dense", choice.layers);
    for (int layer = 0; layer < choice.layers; ++layer) {
        add_attention(plan, shape, layer);
        add_feed_forward(plan, layer, GGML_TYPE_Q8_0, shape.embedding, shape.dense_feed_forward, "", 2);
    }
    return plan.take();
}

} // namespace sluice::tools
