// Batches that a Session can't make, for both sides of a gate. Header-only, so that the stock side links
// nothing of Sluice.
#pragma once

#include "support/gate_prompt.h"

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace sluice::test {

/// What a gate's prompt is decoded as.
enum class BatchKind {
    Tokens,     ///< one sequence of tokens
    Sequences,  ///< three sequences in one batch, then a token for each in another
    Embeddings, ///< vectors in the place of tokens, then tokens
    // In several contexts on one model; see gate_contexts.h.
    Ubatches,       ///< two with ubatches of different sizes
    BeforeAndAfter, ///< made before and after the first token
    Draft,          ///< one drafts, the other verifies
    State,          ///< one goes on from another's saved state
    OtherOrder,     ///< three, not destroyed in the order in which they were made
};

/// Names by kind.
inline constexpr const char *kBatchNames[] = {"tokens", "sequences", "embeddings", "ubatches",
                                              "before", "draft",     "state",      "order"};

inline const char *batch_name(BatchKind kind) {
    return kBatchNames[static_cast<size_t>(kind)];
}

inline BatchKind batch_kind(const std::string &name) {
    size_t kind = 0;
    while (kind + 1 < std::size(kBatchNames) && name != kBatchNames[kind]) {
        ++kind;
    }
    return static_cast<BatchKind>(kind);
}

inline constexpr int32_t kGateSequences = 3;

/// Context parameters of both sides.
inline llama_context_params gate_context(size_t tokens, uint32_t ubatch, int threads, BatchKind kind) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = tokens <= 256 ? 256 : static_cast<uint32_t>((tokens + 255) / 256 * 256);
    params.n_batch = ubatch;
    params.n_ubatch = ubatch;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.n_seq_max = kind == BatchKind::Sequences ? kGateSequences : 1;
    return params;
}

/// Decodes `batch` and appends every token's logits. False if llama.cpp refuses.
inline bool decode_all(llama_context *context, const llama_batch &batch, size_t vocabulary,
                       std::vector<float> &logits) {
    if (llama_decode(context, batch) != 0) {
        return false;
    }
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        const float *row = llama_get_logits_ith(context, i);
        logits.insert(logits.end(), row, row + vocabulary);
    }
    return true;
}

/// Three sequences with prompts of their own in one batch, token by token in turn; then one more token each.
inline bool decode_sequences(llama_context *context, size_t vocabulary, std::vector<float> &logits) {
    constexpr size_t kLength = 9;
    for (size_t begin : {size_t{0}, kLength}) {
        const size_t count = begin == 0 ? kLength : 1;
        llama_batch batch = llama_batch_init(static_cast<int32_t>(count) * kGateSequences, 0, 1);
        for (size_t i = begin; i < begin + count; ++i) {
            for (int32_t sequence = 0; sequence < kGateSequences; ++sequence) {
                const int32_t at = batch.n_tokens++;
                batch.token[at] = gate_prompt(sequence, kLength + 1, vocabulary)[i];
                batch.pos[at] = static_cast<llama_pos>(i);
                batch.n_seq_id[at] = 1;
                batch.seq_id[at][0] = sequence;
                batch.logits[at] = 1;
            }
        }
        const bool decoded = decode_all(context, batch, vocabulary, logits);
        llama_batch_free(batch);
        if (!decoded) {
            return false;
        }
    }
    return true;
}

/// A batch of vectors, then a batch of tokens after it.
inline bool decode_embeddings(llama_context *context, size_t vocabulary, std::vector<float> &logits) {
    constexpr int32_t kLength = 7;
    const int32_t width = llama_model_n_embd_inp(llama_get_model(context));
    for (const bool vectors : {true, false}) {
        llama_batch batch = llama_batch_init(kLength, vectors ? width : 0, 1);
        batch.n_tokens = kLength;
        const std::vector<int32_t> tokens = gate_prompt(1, kLength, vocabulary);
        for (int32_t i = 0; i < kLength; ++i) {
            if (!vectors) {
                batch.token[i] = tokens[static_cast<size_t>(i)];
            }
            for (int32_t j = 0; vectors && j < width; ++j) {
                batch.embd[i * width + j] = 0.02F * static_cast<float>((i * 31 + j * 7) % 101 - 50);
            }
            batch.pos[i] = (vectors ? 0 : kLength) + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        const bool decoded = decode_all(context, batch, vocabulary, logits);
        llama_batch_free(batch);
        if (!decoded) {
            return false;
        }
    }
    return true;
}

} // namespace sluice::test
