// The part of a group that looks at which experts were chosen, were expected to be, or can be left out.
#include "streaming/compute/expert_group.h"

#include <algorithm>

namespace sluice::streaming {

std::vector<residency::SliceKey> ExpertGroup::slices(std::span<const int32_t> experts) const {
    std::vector<residency::SliceKey> keys;
    for (const auto &step : steps_) {
        for (const int32_t expert : experts) {
            for (const ExpertUse &use : step->uses) {
                keys.push_back({use.weight->index, static_cast<uint32_t>(expert)});
            }
        }
    }
    return keys;
}

void ExpertGroup::judge_guess() {
    store_.counters.guessed_experts += expected_.size();
    store_.counters.rightly_guessed_experts +=
        static_cast<uint64_t>(std::count_if(expected_.begin(), expected_.end(), [this](int32_t expert) {
            return expert_index_[static_cast<size_t>(expert)] >= 0;
        }));
    expected_.clear();
}

bool ExpertGroup::is_cached(int32_t expert) const {
    return store_.cache()->holds(slices({&expert, 1}));
}

/// An expert goes only if all that use it would hardly notice. Where the stock kernel multiplies, it needs
/// all.
void ExpertGroup::drop_cold() {
    if (std::any_of(steps_.begin(), steps_.end(),
                    [](const auto &step) { return step->kind == StepKind::Stage; })) {
        return;
    }
    const auto weight = [this](int64_t position, int64_t token) {
        return *reinterpret_cast<const float *>(static_cast<const char *>(weights_->data) +
                                                position * weights_->nb[1] + token * weights_->nb[2]);
    };
    const int64_t used = ids_->ne[0];
    for (Expert &expert : experts_) {
        const std::span<const TokenUse> uses(token_uses_.data() + expert.first, expert.count);
        expert.dropped = std::all_of(uses.begin(), uses.end(), [&](const TokenUse &use) {
            float sum = 0;
            for (int64_t position = 0; position < used; ++position) {
                sum += weight(position, use.token);
            }
            return weight(use.position, use.token) <
                   store_.lossy().drop_cold * sum / static_cast<float>(used);
        });
        expert.dropped = expert.dropped && !is_cached(expert.id);
        store_.counters.dropped_experts += expert.dropped ? 1 : 0;
    }
}

} // namespace sluice::streaming
