#include "session/output_check.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::session {

namespace {

bool are_numbers(std::span<const float> values) {
    bool all = true;
    for (const float value : values) {
        all &= value == value; // written so that the compiler does several at a time
    }
    return all;
}

/// Kernels that multiply quantised activations make zeros of those that are no numbers, and with them every
/// logit the same, which no model computes.
bool are_all_the_same(std::span<const float> values) {
    return values.size() > 1 && std::all_of(values.begin(), values.end(),
                                            [first = values.front()](float value) { return value == first; });
}

bool wants_output(const llama_batch &batch, int32_t index) {
    return batch.logits == nullptr ? index + 1 == batch.n_tokens : batch.logits[index] != 0;
}

/// Of output `index`. What is not there is in order.
bool logits_are_numbers(llama_context *context, int32_t index, size_t vocabulary) {
    if (llama_get_sampled_token_ith(context, index) != LLAMA_TOKEN_NULL) {
        return true; // the graph drew the token, and logits were not kept
    }
    const float *logits = llama_get_logits_ith(context, index);
    return logits == nullptr ||
           (are_numbers({logits, vocabulary}) && !are_all_the_same({logits, vocabulary}));
}

bool embeddings_are_numbers(llama_context *context, const llama_batch &batch, int32_t index) {
    const llama_model *model = llama_get_model(context);
    const auto pooling = llama_pooling_type(context);
    const auto width = pooling == LLAMA_POOLING_TYPE_RANK
                           ? static_cast<size_t>(llama_model_n_cls_out(model))
                           : static_cast<size_t>(llama_model_n_embd_out(model));
    const float *values = nullptr;
    if (pooling == LLAMA_POOLING_TYPE_NONE) {
        values = llama_get_embeddings_ith(context, index);
    } else if (batch.seq_id != nullptr) {
        values = llama_get_embeddings_seq(context, batch.seq_id[index][0]);
    }
    return values == nullptr || are_numbers({values, width});
}

std::vector<bool> sequences_of(const llama_batch &batch, uint32_t count) {
    std::vector<bool> present(count, false);
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        for (int32_t j = 0; batch.n_seq_id != nullptr && j < batch.n_seq_id[i]; ++j) {
            present[static_cast<size_t>(batch.seq_id[i][j])] = true;
        }
    }
    return present;
}

} // namespace

Status check_outputs(llama_context *context, const llama_batch &batch) {
    const bool has_logits = llama_get_logits(context) != nullptr;
    // With an encoder there is room for embeddings that nobody computes.
    const bool has_embeddings =
        llama_get_embeddings(context) != nullptr && !llama_model_has_encoder(llama_get_model(context));
    const auto vocabulary =
        static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context))));
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        if (!wants_output(batch, i)) {
            continue;
        }
        if ((has_logits && !logits_are_numbers(context, i, vocabulary)) ||
            (has_embeddings && !embeddings_are_numbers(context, batch, i))) {
            return fail(ErrorCode::InvalidFormat,
                        "the model computed what is no number (NaN): its file is damaged, or values grew "
                        "too large for their type");
        }
    }
    return {};
}

void clear_spoiled(llama_context *context, const llama_batch &batch) {
    llama_memory_t memory = llama_get_memory(context);
    if (memory == nullptr) {
        return;
    }
    const std::vector<bool> lost = sequences_of(batch, llama_n_seq_max(context));
    std::vector<std::pair<llama_seq_id, std::vector<uint8_t>>> kept;
    for (llama_seq_id sequence = 0; sequence < static_cast<llama_seq_id>(lost.size()); ++sequence) {
        if (!lost[static_cast<size_t>(sequence)] && llama_memory_seq_pos_max(memory, sequence) >= 0) {
            std::vector<uint8_t> state(llama_state_seq_get_size(context, sequence));
            llama_state_seq_get_data(context, state.data(), state.size(), sequence);
            kept.emplace_back(sequence, std::move(state));
        }
    }
    llama_memory_clear(memory, true);
    for (const auto &[sequence, state] : kept) {
        llama_state_seq_set_data(context, state.data(), state.size(), sequence);
    }
}

} // namespace sluice::session
