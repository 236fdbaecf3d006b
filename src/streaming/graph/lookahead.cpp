#include "streaming/graph/lookahead.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::streaming {

std::unique_ptr<Lookahead> Lookahead::create(const Router &router, ggml_tensor *activations,
                                             StreamedStore &store) {
    auto copy = RouterCopy::create(router, activations);
    if (copy == nullptr) {
        return nullptr;
    }
    return std::unique_ptr<Lookahead>(new Lookahead(std::move(copy), router.activations == nullptr, store));
}

void Lookahead::prepare() {
    wanted_ = 0;
    if (target_ != nullptr) {
        const uint32_t asked = store_.lookahead_experts();
        const bool as_used = certain_ || asked == kAsManyAsUsed;
        wanted_ = as_used ? static_cast<uint32_t>(target_->ids()->ne[0]) : asked;
    }
    copy_->set_computed(wanted_ > 0);
}

void Lookahead::make() {
    if (wanted_ == 0 || store_.failed()) {
        return;
    }
    std::vector<int32_t> experts;
    for (const int32_t expert : copy_->choice(wanted_)) {
        if (expert >= 0 && expert < target_->expert_count()) {
            experts.push_back(expert);
        }
    }
    const std::vector<residency::SliceKey> slices = target_->slices(experts);
    if (certain_) {
        store_.cache()->prefetch(slices);
        return;
    }
    target_->expect(experts);
    store_.cache()->guess(residency::Guess::NextLayer, slices);
}

} // namespace sluice::streaming
