#include "tools/make_model_parts.h"

#include "ggml.h"

#include <fmt/format.h>

namespace sluice::tools {

void add_size_keys(PlanBuilder &plan, int layers, int64_t context, int64_t width) {
    plan.key("block_count", static_cast<uint32_t>(layers));
    plan.key("context_length", u32(context));
    plan.key("embedding_length", u32(width));
}

void add_attention_keys(PlanBuilder &plan, const AttentionShape &shape) {
    plan.key("attention.head_count", u32(shape.heads));
    plan.key("attention.head_count_kv", u32(shape.kv_heads));
    plan.key("attention.key_length", u32(shape.head_size));
    plan.key("attention.value_length", u32(shape.head_size));
}

void add_expert_keys(PlanBuilder &plan, const ExpertShape &shape) {
    plan.key("expert_feed_forward_length", u32(shape.inner));
    plan.key("expert_count", u32(shape.count));
    plan.key("expert_used_count", u32(shape.used));
}

void add_vocabulary(PlanBuilder &plan, int embedding_type, int output_type, int64_t width,
                    int64_t vocabulary) {
    plan.weight("token_embd.weight", embedding_type, {width, vocabulary}, 16);
    plan.values("output_norm.weight", {width}, 1);
    plan.weight("output.weight", output_type, {width, vocabulary}, 2);
}

void add_tied_vocabulary(PlanBuilder &plan, int type, int64_t width, int64_t vocabulary) {
    plan.weight("token_embd.weight", type, {width, vocabulary});
    plan.values("output_norm.weight", {width}, 4);
}

void add_words(PlanBuilder &plan, int64_t count) {
    // Kinds of tokens, as llama.cpp's llama_token_type numbers them.
    constexpr int32_t kNormal = 1;
    constexpr int32_t kUnknown = 2;
    constexpr int32_t kControl = 3;
    constexpr int32_t kByte = 6;
    std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
    std::vector<int32_t> kinds{kUnknown, kControl, kControl};
    for (int byte = 0; byte < 256; ++byte) {
        texts.push_back(fmt::format("<0x{:02X}>", byte));
        kinds.push_back(kByte);
    }
    // Every beginning of a word is a token as well: the tokenizer joins two tokens at a time.
    const std::string word = "\xe2\x96\x81w"; // U+2581 stands for a blank
    texts.push_back(word);
    for (int64_t number = 0; static_cast<int64_t>(texts.size()) < count; ++number) {
        texts.push_back(fmt::format("{}{}", word, number));
    }
    kinds.resize(texts.size(), kNormal);
    plan.general_key("tokenizer.ggml.model", std::string("llama"));
    plan.general_key("tokenizer.ggml.scores", std::vector<float>(texts.size(), 0));
    plan.general_key("tokenizer.ggml.token_type", std::move(kinds));
    plan.general_key("tokenizer.ggml.tokens", std::move(texts));
    plan.general_key("tokenizer.ggml.bos_token_id", uint32_t{1});
    plan.general_key("tokenizer.ggml.eos_token_id", uint32_t{2});
}

void add_attention_weights(PlanBuilder &plan, int layer, int type, int64_t width,
                           const AttentionShape &shape) {
    const int64_t gates = shape.gated ? shape.queries() : 0;
    plan.weight(layer_tensor(layer, "attn_q.weight"), type, {width, shape.queries() + gates});
    plan.weight(layer_tensor(layer, "attn_k.weight"), type, {width, shape.keys()});
    plan.weight(layer_tensor(layer, "attn_v.weight"), type, {width, shape.keys()});
    plan.weight(layer_tensor(layer, "attn_output.weight"), type, {shape.queries(), width});
}

void add_experts(PlanBuilder &plan, int layer, int64_t width, const ExpertShape &shape, ExpertTypes types) {
    const int64_t inner = shape.inner;
    plan.weight(layer_tensor(layer, "ffn_gate_inp.weight"), GGML_TYPE_F32, {width, shape.count}, router_gain);
    plan.weight(layer_tensor(layer, "ffn_gate_exps.weight"), types.gate_up, {width, inner, shape.count});
    plan.weight(layer_tensor(layer, "ffn_up_exps.weight"), types.gate_up, {width, inner, shape.count});
    plan.weight(layer_tensor(layer, "ffn_down_exps.weight"), types.down, {inner, width, shape.count}, 2);
}

void add_feed_forward(PlanBuilder &plan, int layer, int type, int64_t width, int64_t inner,
                      std::string_view suffix, double down_gain) {
    const auto matrix = [layer, suffix](const char *part) {
        return layer_tensor(layer, fmt::format("ffn_{}{}.weight", part, suffix));
    };
    plan.weight(matrix("gate"), type, {width, inner});
    plan.weight(matrix("up"), type, {width, inner});
    plan.weight(matrix("down"), type, {inner, width}, down_gain);
}

} // namespace sluice::tools
