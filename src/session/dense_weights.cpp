#include "session/dense_weights.h"

#include "platform/page_residency.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::session {

namespace {

// Enough for a share that is right to a percent or two, few enough to cost milliseconds.
constexpr size_t kResidencySamples = 4096;

} // namespace

Status check_dense_weights(DenseWeights mode) {
    if (mode == DenseWeights::Ahwb) {
        return fail(ErrorCode::InvalidArgument,
                    "--dense-weights ahwb needs Android's AHardwareBuffer, which this build does not have; "
                    "without the flag dense weights are in anonymous memory");
    }
    return {};
}

Status warm_dense_weights(const ModelState &model, const std::function<bool(float)> &progress) {
    if (model.options.dense_weights != DenseWeights::Warm || model.streamed == nullptr) {
        return {};
    }
    constexpr size_t kStep = size_t{8} << 20U; // often enough for a progress bar and a prompt Ctrl-C
    std::vector<platform::ByteRange> ranges = model.streamed->store->mapped_ranges();
    const auto all = static_cast<double>(model.streamed->store->mapped_bytes());
    double done = 0;
    for (platform::ByteRange range : ranges) {
        while (!range.empty()) {
            const platform::ByteRange part = range.first(std::min(kStep, range.size()));
            platform::populate_pages(part);
            range = range.subspan(part.size());
            done += static_cast<double>(part.size());
            if (progress && !progress(static_cast<float>(done / all))) {
                return fail(ErrorCode::Cancelled, "reading the dense weights ahead was cancelled");
            }
        }
    }
    return {};
}

void lock_dense_weights(ModelState &model) {
    if (model.options.dense_weights != DenseWeights::Locked || model.streamed == nullptr ||
        model.info.dense_locked || !model.info.dense_note.empty()) {
        return;
    }
    std::vector<platform::ByteRange> locked;
    for (const platform::ByteRange range : model.streamed->store->dense_ranges()) {
        if (auto lock = platform::lock_pages(range); !lock) {
            for (const platform::ByteRange done : locked) {
                platform::unlock_pages(done);
            }
            model.info.dense_note = fmt::format("dense weights are not locked: {}", lock.error().message);
            return;
        }
        locked.push_back(range);
    }
    model.info.dense_locked = true;
}

DenseResidency dense_residency(const ModelState &model) {
    if (model.streamed == nullptr) {
        return {};
    }
    const auto ranges = model.streamed->store->dense_ranges();
    const platform::PageResidency pages = platform::sample_residency(ranges, kResidencySamples);
    return {.resident = pages.resident, .swapped = pages.swapped};
}

} // namespace sluice::session
