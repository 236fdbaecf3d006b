// qwen4exp, in real and tiny shapes: one layer mixes in rows of a large table that hashes of the last
// tokens choose. The graph only ever gathers from that table.
#include "tools/make_model_parts.h"

#include "ggml.h"

#include <cmath>
#include <iterator>

namespace sluice::tools {

namespace {

constexpr int dense_type = GGML_TYPE_Q8_0;
constexpr int64_t streams = 4;         // of the residual, each as wide as the embedding
constexpr int64_t convolution = 4;     // tokens that either convolution sees
constexpr int attention_interval = 4;  // every fourth layer attends, the others are linear
constexpr int hashed_layer = 1;        // the one that has the table; must be a linear one
constexpr int64_t ngram = 3;           // hashes of the last two tokens, and of the last three
constexpr int64_t row_alignment = 128; // the table's rows are rounded up to this

// One for each token of an n-gram, odd; with ids below 2^18 no product exceeds 63 bits.
constexpr uint64_t multipliers[ngram] = {0x16a09e667f3bU, 0x1bb67ae8584dU, 0x11e3779b97f5U};

struct HashedShape {
    int64_t width = 256;
    int64_t vocabulary = 512;
    AttentionShape attention{.gated = true};
    int64_t indexer_heads = 2;
    int64_t indexer_size = 64;
    int64_t indexer_top = 32;
    int64_t linear_heads = 4;
    int64_t linear_key_heads = 2;
    int64_t linear_size = 64; ///< of a linear head
    int64_t rank = 32;        ///< of the matrices that mix the streams
    ExpertShape experts;
    int64_t hashes = 2;           ///< for each length of n-gram
    int64_t least_rows = 1 << 14; ///< that one hash chooses from
    int table_type = GGML_TYPE_Q8_0;
    int output_type = GGML_TYPE_Q8_0;

    [[nodiscard]] int64_t heads() const { return hashes * (ngram - 1); }
    /// All rows of one token, side by side, are as wide as the embedding.
    [[nodiscard]] int64_t row() const { return width / heads(); }
    [[nodiscard]] int64_t linear_values() const { return linear_heads * linear_size; }
    [[nodiscard]] int64_t linear_mixed() const {
        return 2 * linear_key_heads * linear_size + linear_values();
    }
};

/// Qwen3.8-Flash-Next; its table has 20 million rows for each hash.
HashedShape real_shape() {
    HashedShape shape;
    shape.width = 2560;
    shape.vocabulary = 248320;
    shape.attention = {.heads = 24, .kv_heads = 2, .head_size = 256, .gated = true};
    shape.indexer_heads = 4;
    shape.indexer_size = 128;
    shape.indexer_top = 2048;
    shape.linear_heads = 48;
    shape.linear_key_heads = 16;
    shape.linear_size = 128;
    shape.rank = 320;
    shape.experts = {.count = 512, .used = 10, .inner = 640};
    shape.hashes = 8;
    shape.least_rows = 14'000'000;
    shape.table_type = GGML_TYPE_Q4_0;
    shape.output_type = GGML_TYPE_Q6_K;
    return shape;
}

bool attends(int layer) {
    return (layer + 1) % attention_interval == 0;
}

uint64_t prime_from(uint64_t number) {
    const auto is_prime = [](uint64_t candidate) {
        for (uint64_t divisor = 2; divisor * divisor <= candidate; ++divisor) {
            if (candidate % divisor == 0) {
                return false;
            }
        }
        return true;
    };
    while (!is_prime(number)) {
        ++number;
    }
    return number;
}

/// Which rows each hash chooses from: as many as the next prime, one hash's after the other's.
struct HashRanges {
    std::vector<uint64_t> offsets;
    std::vector<uint64_t> sizes;
    int64_t rows = 0; ///< of the table
};

HashRanges hash_ranges(const HashedShape &shape) {
    HashRanges ranges;
    uint64_t next = static_cast<uint64_t>(shape.least_rows);
    uint64_t rows = 0;
    for (int64_t head = 0; head < shape.heads(); ++head) {
        const uint64_t size = prime_from(next);
        ranges.offsets.push_back(rows);
        ranges.sizes.push_back(size);
        next = size + 1;
        rows += size;
    }
    ranges.rows = (static_cast<int64_t>(rows) + row_alignment - 1) / row_alignment * row_alignment;
    return ranges;
}

void add_hash_keys(PlanBuilder &plan, const HashedShape &shape, const HashRanges &ranges) {
    plan.key("ple.layers", std::vector<uint32_t>{hashed_layer});
    plan.key("ple.ngram_size", u32(ngram));
    plan.key("ple.heads_per_ngram", u32(shape.hashes));
    plan.key("ple.conv_kernel", u32(convolution));
    plan.key("ple.eos_token_id", uint32_t{0});
    plan.key("ple.layer_multipliers", std::vector<uint64_t>(std::begin(multipliers), std::end(multipliers)));
    plan.key("ple.head_offsets", ranges.offsets);
    plan.key("ple.head_vocab_sizes", ranges.sizes);
    plan.key("embedding_length_per_layer_input", u32(shape.row()));
}

void add_keys(PlanBuilder &plan, const HashedShape &shape, int layers) {
    std::vector<uint32_t> tokens_in_block; // that sparse attention takes or leaves as one
    tokens_in_block.reserve(static_cast<size_t>(layers));
    for (int layer = 0; layer < layers; ++layer) {
        tokens_in_block.push_back(attends(layer) ? 4 : 0);
    }
    add_size_keys(plan, layers, 262144, shape.width);
    add_attention_keys(plan, shape.attention);
    add_expert_keys(plan, shape.experts);
    plan.key("expert_shared_feed_forward_length", u32(shape.experts.inner));
    plan.key("attention.layer_norm_rms_epsilon", 1e-6F);
    plan.key("attention.indexer.head_count", u32(shape.indexer_heads));
    plan.key("attention.indexer.key_length", u32(shape.indexer_size));
    plan.key("attention.indexer.top_k", u32(shape.indexer_top));
    plan.key("attention.compress_ratios", tokens_in_block);
    plan.key("full_attention_interval", uint32_t{attention_interval});
    plan.key("rope.dimension_count", uint32_t{64});
    plan.key("rope.dimension_sections", std::vector<uint32_t>{11, 11, 10, 0});
    plan.key("rope.freq_base", 1e7F);
    plan.key("ssm.conv_kernel", u32(convolution));
    plan.key("ssm.inner_size", u32(shape.linear_values()));
    plan.key("ssm.state_size", u32(shape.linear_size));
    plan.key("ssm.time_step_rank", u32(shape.linear_heads));
    plan.key("ssm.group_count", u32(shape.linear_key_heads));
    plan.key("hyper_connection.count", u32(streams));
    plan.key("hyper_connection.low_rank", u32(shape.rank));
    plan.key("vocab_size", u32(shape.vocabulary));
}

/// Mixes the streams into the input of a block. It halves them, so the norm doubles.
void add_mixer(PlanBuilder &plan, const std::string &prefix, const HashedShape &shape) {
    plan.values(prefix + "_norm.weight", {streams * shape.width}, 2);
    plan.weight(prefix + "_down.weight", dense_type, {streams * shape.width, shape.rank});
    plan.weight(prefix + "_up.weight", dense_type, {shape.rank, streams * shape.width}, 4);
}

/// The same, and how strongly the block's output goes into each stream.
void add_layer_mixer(PlanBuilder &plan, int layer, const char *part, const HashedShape &shape) {
    const std::string prefix = layer_tensor(layer, part);
    add_mixer(plan, prefix, shape);
    plan.weight(prefix + "_inject.weight", dense_type, {streams * shape.width, streams});
}

void add_sparse_attention(PlanBuilder &plan, int layer, const HashedShape &shape) {
    const int64_t indexed = shape.indexer_heads * shape.indexer_size;
    add_attention_weights(plan, layer, dense_type, shape.width, shape.attention);
    plan.values(layer_tensor(layer, "attn_q_norm.weight"), {shape.attention.head_size}, 1);
    plan.values(layer_tensor(layer, "attn_k_norm.weight"), {shape.attention.head_size}, 1);
    plan.weight(layer_tensor(layer, "indexer.q_proj.weight"), dense_type, {shape.width, indexed});
    plan.weight(layer_tensor(layer, "indexer.k_proj.weight"), dense_type, {shape.width, shape.indexer_size});
    plan.values(layer_tensor(layer, "indexer.q_norm.weight"), {shape.indexer_size}, 1);
    plan.values(layer_tensor(layer, "indexer.k_norm.weight"), {shape.indexer_size}, 1);
}

void add_linear_attention(PlanBuilder &plan, int layer, const HashedShape &shape) {
    const int64_t mixed = shape.linear_mixed();
    const int64_t values = shape.linear_values();
    plan.weight(layer_tensor(layer, "attn_qkv.weight"), dense_type, {shape.width, mixed});
    plan.weight(layer_tensor(layer, "attn_gate.weight"), dense_type, {shape.width, values});
    plan.weight(layer_tensor(layer, "ssm_conv1d.weight"), GGML_TYPE_F32, {convolution, mixed});
    plan.values(layer_tensor(layer, "ssm_dt.bias"), {shape.linear_heads}, 0, 1);
    plan.values(layer_tensor(layer, "ssm_a"), {shape.linear_heads}, -1); // below 0: the state decays
    plan.weight(layer_tensor(layer, "ssm_beta.weight"), dense_type, {shape.width, shape.linear_heads});
    plan.weight(layer_tensor(layer, "ssm_alpha.weight"), dense_type, {shape.width, shape.linear_heads});
    plan.values(layer_tensor(layer, "ssm_norm.weight"), {shape.linear_size}, 1);
    plan.weight(layer_tensor(layer, "ssm_out.weight"), dense_type, {values, shape.width});
}

/// What makes the rows gathered an addition to the streams.
void add_gathered(PlanBuilder &plan, int layer, const HashedShape &shape) {
    const int64_t wide = streams * shape.width;
    plan.weight(layer_tensor(layer, "ple_key.weight"), dense_type, {shape.width, wide});
    plan.weight(layer_tensor(layer, "ple_value.weight"), dense_type, {shape.width, shape.width});
    for (const char *norm : {"ple_norm_key.weight", "ple_norm_query.weight", "ple_norm_conv.weight"}) {
        plan.values(layer_tensor(layer, norm), {wide}, 1);
    }
    plan.weight(layer_tensor(layer, "ple_conv1d.weight"), GGML_TYPE_F32, {convolution, wide});
}

void add_layer(PlanBuilder &plan, int layer, const HashedShape &shape, ExpertTypes types) {
    add_layer_mixer(plan, layer, "hc_attn", shape);
    add_layer_mixer(plan, layer, "hc_ffn", shape);
    if (attends(layer)) {
        add_sparse_attention(plan, layer, shape);
    } else {
        add_linear_attention(plan, layer, shape);
    }
    if (layer == hashed_layer) {
        add_gathered(plan, layer, shape);
    }
    add_experts(plan, layer, shape.width, shape.experts, types);
    plan.values(layer_tensor(layer, "ffn_gate_inp_shexp.weight"), {shape.width}, 0,
                1 / std::sqrt(static_cast<double>(shape.width)));
    add_feed_forward(plan, layer, dense_type, shape.width, shape.experts.inner, "_shexp", 2);
}

ModelPlan plan_hashed(const HashedShape &shape, std::string_view name, int layers, ExpertTypes types) {
    PlanBuilder plan("qwen4exp", name);
    const HashRanges ranges = hash_ranges(shape);
    add_keys(plan, shape, layers);
    add_hash_keys(plan, shape, ranges);
    plan.weight("token_embd.weight", dense_type, {shape.width, shape.vocabulary}, 16);
    plan.weight("output.weight", shape.output_type, {shape.width, shape.vocabulary}, 2);
    add_mixer(plan, "output_hc", shape);
    plan.weight("per_layer_token_embd.weight", shape.table_type, {shape.row(), ranges.rows},
                std::sqrt(static_cast<double>(shape.row()))); // deviation 1
    for (int layer = 0; layer < layers; ++layer) {
        add_layer(plan, layer, shape, types);
    }
    return plan.take();
}

} // namespace

ModelPlan plan_tiny_hashed(const RecipeChoice &choice) {
    return plan_hashed(HashedShape{}, "tiny-hashed", choice.layers, {choice.expert_type, choice.expert_type});
}

ModelPlan plan_hashed_20g(const RecipeChoice &choice) {
    // The down matrices' rows of 640 rule out K types; this is what llama.cpp's quantiser falls back to.
    const ExpertTypes types{choice.expert_type, choice.type_given ? choice.expert_type : GGML_TYPE_Q5_0};
    return plan_hashed(real_shape(), "hashed-20g", choice.layers, types);
}

} // namespace sluice::tools
