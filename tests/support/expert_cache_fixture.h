// An expert cache on a patterned file, read as the parameter says.
#pragma once

#include "residency/expert_cache.h"
#include "support/fault_file.h"
#include "support/temp_file.h"

#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <vector>

namespace sluice::test {

constexpr uint64_t kOffset = 1234; // no block boundary
constexpr size_t kSlice = 5000;
constexpr uint32_t kExperts = 16;

/// One bank of kExperts slices, one expert a token.
class ExpertCacheFixture : public testing::TestWithParam<platform::Access> {
protected:
    /// `slice`: bytes of one expert.
    explicit ExpertCacheFixture(size_t slice = kSlice) : slice_(slice) {}

    void SetUp() override {
        file_ = std::move(*files_.open(dir_.write_pattern("experts", kOffset + slice_ * kExperts), true));
        engine_ = std::move(*storage::make_thread_read_engine(3));
        if (GetParam() == platform::Access::Direct && !file_->direct_trusted()) {
            GTEST_SKIP() << file_->direct_refusal();
        }
    }

    void make_cache(size_t slots, CachePolicy policy = CachePolicy::NextUse) {
        const residency::Bank bank{.name = "bank",
                                   .file = file_.get(),
                                   .offset = kOffset,
                                   .slice_bytes = slice_,
                                   .expert_count = kExperts};
        constexpr size_t kCacheLine = 64;
        const size_t block = residency::read_block(bank, GetParam());
        stride_ = block > 1 ? residency::slice_footprint(bank, block)
                            : (slice_ + kCacheLine - 1) / kCacheLine * kCacheLine;
        auto made = residency::ExpertCache::create(
            {bank},
            {.capacity_bytes = slots * stride_, .access = GetParam(), .layers = {{{0}, 1}}, .policy = policy},
            *engine_);
        ASSERT_TRUE(made) << made.error().message;
        cache_ = std::move(*made);
        ASSERT_EQ(cache_->plan().classes.at(0).slots, slots);
    }

    std::vector<residency::Slot *> acquire(std::initializer_list<uint32_t> experts) {
        std::vector<residency::SliceKey> keys;
        for (uint32_t expert : experts) {
            keys.push_back({0, expert});
        }
        std::vector<residency::Slot *> slots(keys.size());
        cache_->acquire(keys, slots);
        return slots;
    }

    residency::SlotState settle(residency::Slot *slot) {
        for (;;) {
            const uint32_t seen = cache_->arrivals();
            if (const auto state = slot->state.load(); state != residency::SlotState::Loading) {
                return state;
            }
            cache_->wait_for_arrival(seen);
        }
    }

    void expect_slice(residency::Slot *slot, uint32_t expert) {
        ASSERT_NE(slot, nullptr);
        ASSERT_EQ(settle(slot), residency::SlotState::Ready);
        EXPECT_EQ(first_wrong({slot->data, slice_}, kOffset + expert * slice_), slice_);
    }

    const size_t slice_;
    size_t stride_ = 0; ///< bytes of a slot, once there is a cache
    ScratchDir dir_;
    std::shared_ptr<platform::FaultPlan> plan_ = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files_{plan_};
    std::unique_ptr<platform::IFile> file_;
    std::unique_ptr<storage::IReadEngine> engine_;
    std::unique_ptr<residency::ExpertCache> cache_;
};

inline const auto access_name = [](const auto &info) {
    return std::string(info.param == platform::Access::Direct ? "Direct" : "Buffered");
};

} // namespace sluice::test
