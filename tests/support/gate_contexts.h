// Contexts as programs on llama.h alone make them, several on one model. For both sides of a gate;
// header-only, so that the stock side links nothing of Sluice.
#pragma once

#include "support/gate_batch.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

struct GateContextDeleter {
    void operator()(llama_context *context) const { llama_free(context); }
};
using GateContext = std::unique_ptr<llama_context, GateContextDeleter>;

/// One context, what it was fed and where it is. Logits of every token go to `logits`.
class GateSequence {
public:
    GateSequence(llama_model *model, uint32_t ubatch, int threads, std::vector<float> &logits)
        : vocabulary_(static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)))),
          logits_(logits) {
        llama_context_params params = gate_context(256, ubatch, threads, BatchKind::Tokens);
        params.n_batch = 64;
        context_.reset(llama_init_from_model(model, params));
    }

    /// Prompt number `which`, as one batch.
    bool prompt(int which, size_t length) { return feed(gate_prompt(which, length, vocabulary_)); }

    bool feed(const std::vector<int32_t> &tokens) {
        if (context_ == nullptr) {
            return false;
        }
        llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
        for (const int32_t token : tokens) {
            const int32_t at = batch.n_tokens++;
            batch.token[at] = token;
            batch.pos[at] = position_++;
            batch.n_seq_id[at] = 1;
            batch.seq_id[at][0] = 0;
            batch.logits[at] = 1;
        }
        const bool decoded = decode_all(context_.get(), batch, vocabulary_, logits_);
        llama_batch_free(batch);
        return decoded;
    }

    /// Draws `count` tokens one by one, and feeds each.
    bool draw(int count) {
        for (int i = 0; i < count; ++i) {
            if (!feed({next()})) {
                return false;
            }
        }
        return true;
    }

    [[nodiscard]] int32_t next() const {
        return greedy(llama_get_logits_ith(context_.get(), -1), vocabulary_);
    }

    /// Forgets what was fed last.
    void take_back(llama_pos count) {
        position_ -= count;
        llama_memory_seq_rm(llama_get_memory(context_.get()), 0, position_, -1);
    }

    /// Goes on where `other` is, by its saved state.
    bool restore(const GateSequence &other) {
        std::vector<uint8_t> state(llama_state_get_size(other.context_.get()));
        position_ = other.position_;
        return llama_state_get_data(other.context_.get(), state.data(), state.size()) == state.size() &&
               llama_state_set_data(context_.get(), state.data(), state.size()) == state.size();
    }

private:
    const size_t vocabulary_;
    std::vector<float> &logits_;
    GateContext context_;
    llama_pos position_ = 0;
};

/// What several contexts on one model do, in a fixed order.
inline bool decode_in_contexts(BatchKind kind, llama_model *model, int threads, std::vector<float> &logits) {
    const auto make = [&](uint32_t ubatch) {
        return std::make_unique<GateSequence>(model, ubatch, threads, logits);
    };
    auto first = make(64);
    auto second = make(kind == BatchKind::Ubatches ? 5 : 64);
    switch (kind) {
    case BatchKind::Ubatches:
        return first->prompt(0, 20) && second->prompt(1, 20) && first->draw(4) && second->draw(4);
    case BatchKind::BeforeAndAfter: {
        if (!first->prompt(0, 20) || !first->draw(4)) {
            return false;
        }
        auto after = make(7);
        return second->prompt(1, 20) && after->prompt(2, 20) && second->draw(4) && after->draw(4);
    }
    case BatchKind::Draft:
        if (!first->prompt(0, 20) || !second->prompt(0, 20)) {
            return false;
        }
        for (int round = 0; round < 4; ++round) {
            std::vector<int32_t> drafted;
            for (int i = 0; i < 3; ++i) {
                drafted.push_back(second->next());
                if (!second->feed({drafted.back()})) {
                    return false;
                }
            }
            if (!first->feed(drafted)) {
                return false;
            }
            first->take_back(1);
            second->take_back(1);
            drafted.resize(1);
            if (!first->feed(drafted) || !second->feed(drafted)) {
                return false;
            }
        }
        return true;
    case BatchKind::State:
        return first->prompt(0, 20) && first->draw(3) && second->restore(*first) &&
               second->feed({first->next()}) && second->draw(6) && first->draw(6);
    default: {
        auto third = make(9);
        if (!first->prompt(0, 20) || !second->prompt(1, 20) || !third->prompt(2, 20)) {
            return false;
        }
        second.reset();
        if (!first->draw(4) || !third->draw(4)) {
            return false;
        }
        first.reset();
        return third->draw(4);
    }
    }
}

} // namespace sluice::test
