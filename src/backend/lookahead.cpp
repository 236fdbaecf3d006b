#include "backend/lookahead.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::backend {

std::unique_ptr<Lookahead> Lookahead::create(const Router &router, ggml_tensor *activations,
                                             StreamedStore &store) {
    auto copy = RouterCopy::create(router, activations);
    if (copy == nullptr) {
        return nullptr;
    }
    return std::unique_ptr<Lookahead>(new Lookahead(std::move(copy), router.activations == nullptr, store));
}

void Lookahead::prepare() {
    copy_->set_computed(target_ != nullptr && (certain_ || store_.lookahead_experts() > 0));
}

void Lookahead::make() {
    if (target_ == nullptr) {
        return;
    }
    const auto used = static_cast<size_t>(target_->ids()->ne[0]);
    const uint32_t asked = store_.lookahead_experts();
    const size_t wanted = certain_ || asked == kAsManyAsUsed ? used : asked;
    if (wanted == 0 || store_.failed()) {
        return;
    }
    std::vector<int32_t> experts;
    for (const int32_t expert : copy_->choice(wanted)) {
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

} // namespace sluice::backend
