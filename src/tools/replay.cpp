#include "tools/replay.h"

#include "residency/eviction_policy.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace sluice::tools {

namespace {

using residency::SlotIndex;

constexpr uint64_t kNever = UINT64_MAX;
constexpr SlotIndex kNoSlot = UINT32_MAX;

/// The experts of a decision, each once, in order of first appearance: what the cache is asked for.
class Union {
public:
    explicit Union(uint32_t experts) : seen_(experts, 0) {}

    const std::vector<uint32_t> &of(const telemetry::RouteDecision &decision) {
        ++decision_;
        experts_.clear();
        for (const auto &token : decision.tokens) {
            for (const uint32_t expert : token) {
                if (seen_[expert] != decision_) {
                    seen_[expert] = decision_;
                    experts_.push_back(expert);
                }
            }
        }
        return experts_;
    }

private:
    std::vector<uint64_t> seen_; ///< by expert: the last decision that had it
    uint64_t decision_ = 0;
    std::vector<uint32_t> experts_;
};

void count(const telemetry::RouteDecision &decision, bool hit, ReplayCounts &counts) {
    (decision.prefill ? counts.prefill_asks : counts.decode_asks) += 1;
    (decision.prefill ? counts.prefill_hits : counts.decode_hits) += hit ? 1 : 0;
}

/// By layer: the most experts that one decoded token used there.
std::vector<uint32_t> experts_per_token(const telemetry::RouteTrace &trace) {
    std::vector<uint32_t> most(trace.layers, 0);
    for (const telemetry::RouteDecision &decision : trace.decisions) {
        if (!decision.prefill) {
            uint32_t &here = most[decision.layer];
            here = std::max(here, static_cast<uint32_t>(decision.tokens.front().size()));
        }
    }
    return most;
}

/// One bank a layer, whose slices are whole experts.
residency::RoutingLayout layout_of(const telemetry::RouteTrace &trace) {
    residency::RoutingLayout layout;
    const std::vector<uint32_t> per_token = experts_per_token(trace);
    for (uint32_t layer = 0; layer < trace.layers; ++layer) {
        layout.layers.push_back({.banks = {layer},
                                 .expert_count = trace.experts,
                                 .experts_per_token = std::max(per_token[layer], 1U)});
        layout.layer_of_bank.push_back(layer);
    }
    return layout;
}

size_t slice_count(const telemetry::RouteTrace &trace) {
    return size_t{trace.layers} * trace.experts;
}

/// The expert cache without its bytes: a policy and what it decided.
class PolicyCache {
public:
    PolicyCache(const telemetry::RouteTrace &trace, CachePolicy policy, size_t slots)
        : experts_(trace.experts), union_(trace.experts),
          policy_(residency::make_policy(policy, slots, layout_of(trace))), keys_(slots),
          pinned_(slots, false), slot_of_(slice_count(trace), kNoSlot) {}

    void take(const telemetry::RouteDecision &decision, ReplayCounts &counts) {
        for (const auto &token : decision.tokens) {
            policy_->routed(decision.layer, token);
        }
        missing_.clear();
        for (const uint32_t expert : union_.of(decision)) {
            const residency::SliceKey key{decision.layer, expert};
            const SlotIndex slot = slot_of(key);
            count(decision, slot != kNoSlot, counts);
            if (slot == kNoSlot) {
                missing_.push_back(expert);
            } else {
                pin(slot, key);
            }
        }
        for (const uint32_t expert : missing_) {
            pin(room(), {decision.layer, expert});
        }
        unpin();
    }

private:
    SlotIndex &slot_of(residency::SliceKey key) { return slot_of_[size_t{key.bank} * experts_ + key.expert]; }

    SlotIndex room() {
        if (used_slots_ < keys_.size()) {
            return static_cast<SlotIndex>(used_slots_++);
        }
        const auto free = [this](SlotIndex slot) { return !pinned_[slot]; };
        auto slot = policy_->victim(free);
        if (!slot) {
            unpin(); // what came so far was used meanwhile, and makes room for the rest
            slot = policy_->victim(free);
        }
        slot_of(keys_[*slot]) = kNoSlot;
        policy_->forgotten(*slot);
        return *slot;
    }

    void pin(SlotIndex slot, residency::SliceKey key) {
        keys_[slot] = key;
        slot_of(key) = slot;
        policy_->used(slot, key);
        pinned_[slot] = true;
        pins_.push_back(slot);
    }

    void unpin() {
        for (const SlotIndex slot : pins_) {
            pinned_[slot] = false;
        }
        pins_.clear();
    }

    const size_t experts_;
    Union union_;
    std::unique_ptr<residency::IEvictionPolicy> policy_;
    std::vector<residency::SliceKey> keys_; ///< by slot
    std::vector<bool> pinned_;
    std::vector<SlotIndex> pins_;
    std::vector<SlotIndex> slot_of_; ///< by layer and expert
    size_t used_slots_ = 0;
    std::vector<uint32_t> missing_;
};

/// Belady's MIN: of what it held and what a decision used it keeps what is used again soonest.
class OptimalCache {
public:
    OptimalCache(const telemetry::RouteTrace &trace, size_t slots)
        : experts_(trace.experts), union_(trace.experts), slots_(slots), uses_(slice_count(trace)),
          next_(slice_count(trace), 0) {
        for (size_t time = 0; time < trace.decisions.size(); ++time) {
            for (const uint32_t expert : union_.of(trace.decisions[time])) {
                uses_[slice(trace.decisions[time], expert)].push_back(time);
            }
        }
    }

    void take(const telemetry::RouteDecision &decision, ReplayCounts &counts) {
        const std::vector<uint32_t> &asked = union_.of(decision);
        for (const uint32_t expert : asked) {
            const size_t wanted = slice(decision, expert);
            count(decision, order_.erase({next_use(wanted), wanted}) > 0, counts);
            ++next_[wanted];
        }
        for (const uint32_t expert : asked) {
            const size_t used = slice(decision, expert);
            order_.emplace(next_use(used), used);
            if (order_.size() > slots_) {
                order_.erase(std::prev(order_.end()));
            }
        }
    }

private:
    [[nodiscard]] size_t slice(const telemetry::RouteDecision &decision, uint32_t expert) const {
        return size_t{decision.layer} * experts_ + expert;
    }

    [[nodiscard]] uint64_t next_use(size_t slice) const {
        return next_[slice] < uses_[slice].size() ? uses_[slice][next_[slice]] : kNever;
    }

    const size_t experts_;
    Union union_;
    const size_t slots_;
    std::vector<std::vector<uint64_t>> uses_;     ///< by slice: the decisions that ask for it
    std::vector<size_t> next_;                    ///< by slice: the first of its uses still to come
    std::set<std::pair<uint64_t, size_t>> order_; ///< resident slices by next use
};

template <typename Cache>
ReplayCounts run(const telemetry::RouteTrace &trace, Cache cache) {
    ReplayCounts counts;
    for (const telemetry::RouteDecision &decision : trace.decisions) {
        cache.take(decision, counts);
    }
    return counts;
}

/// More slots than there are experts are never used.
size_t useful_slots(const telemetry::RouteTrace &trace, size_t slots) {
    return std::clamp<size_t>(slots, 1, slice_count(trace));
}

} // namespace

TraceFacts trace_facts(const telemetry::RouteTrace &trace) {
    TraceFacts facts;
    const telemetry::RouteDecision *before = nullptr;
    for (const telemetry::RouteDecision &decision : trace.decisions) {
        const bool begins =
            before == nullptr || before->prefill != decision.prefill || before->layer >= decision.layer;
        (decision.prefill ? facts.prefill_passes : facts.decoded_tokens) += begins ? 1 : 0;
        before = &decision;
    }
    for (const uint32_t experts : experts_per_token(trace)) {
        facts.cycle_slots += experts;
    }
    return facts;
}

ReplayCounts replay(const telemetry::RouteTrace &trace, CachePolicy policy, size_t slots) {
    return run(trace, PolicyCache(trace, policy, useful_slots(trace, slots)));
}

ReplayCounts replay_optimum(const telemetry::RouteTrace &trace, size_t slots) {
    return run(trace, OptimalCache(trace, useful_slots(trace, slots)));
}

} // namespace sluice::tools
