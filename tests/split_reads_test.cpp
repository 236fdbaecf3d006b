// Large reads in parts, on real files.

#include "storage/split_reads.h"

#include "support/fault_file.h"
#include "support/held_read_engine.h"
#include "support/temp_file.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <optional>
#include <vector>

namespace sluice::storage {
namespace {

constexpr size_t kSmall = kLeastSplitBytes;

class SplitReads : public testing::Test {
protected:
    ReadRequest request(uint64_t offset, size_t bytes, size_t needed) {
        buffers_.emplace_back(bytes);
        return {.file = file_.get(),
                .offset = offset,
                .into = buffers_.back(),
                .needed = needed,
                .access = platform::Access::Buffered,
                .done = [this](const Status &status) {
                    ++ended_;
                    last_ = status;
                }};
    }

    test::ScratchDir dir_;
    std::shared_ptr<platform::FaultPlan> plan_ = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files_{plan_};
    std::unique_ptr<platform::IFile> file_ =
        std::move(*files_.open(dir_.write_pattern("f", 16 * kSmall), false));
    std::vector<std::vector<std::byte>> buffers_;
    int ended_ = 0;
    Status last_;
    test::HeldReadEngine engine_;
};

TEST_F(SplitReads, OneReadBecomesAsManyAsThereAreLanes) {
    buffers_.reserve(8);
    const std::vector<ReadRequest> one{request(512, 8 * kSmall, 8 * kSmall - 100)};
    auto parts = split_few(one, 4);
    ASSERT_EQ(parts.size(), 4U);
    EXPECT_EQ(parts[1].offset, 512 + 2 * kSmall);
    EXPECT_EQ(parts[3].needed, 2 * kSmall - 100);
    engine_.submit(parts);
    engine_.finish_one();
    EXPECT_EQ(ended_, 0);
    engine_.finish_all();
    EXPECT_EQ(ended_, 1);
    EXPECT_TRUE(last_);
    EXPECT_EQ(test::first_wrong(buffers_[0], 512), 8 * kSmall);
}

TEST_F(SplitReads, PartsAreEvenWhateverTheSize) {
    for (const size_t kib : {260, 516, 864, 900}) {
        const size_t bytes = kib << 10U;
        const std::vector<ReadRequest> one{request(0, bytes, bytes)};
        const auto parts = split_few(one, 4);
        EXPECT_EQ(parts.size(), std::min<size_t>(4, bytes / kSmall)) << kib;
        size_t next = 0;
        for (const ReadRequest &part : parts) {
            EXPECT_EQ(part.offset, next);
            EXPECT_GE(part.into.size() + 4 * 4096, bytes / parts.size()) << kib;
            next += part.into.size();
        }
        EXPECT_EQ(next, bytes);
    }
}

TEST_F(SplitReads, AsManyReadsAsLanesStayWhole) {
    buffers_.reserve(8);
    const std::vector<ReadRequest> two{request(0, 4 * kSmall, 4 * kSmall),
                                       request(0, 4 * kSmall, 4 * kSmall)};
    EXPECT_EQ(split_few(two, 2).size(), 2U);
    EXPECT_EQ(split_few(two, 4).size(), 4U);
    EXPECT_TRUE(split_few({}, 4).empty());
}

TEST_F(SplitReads, SmallReadsStayWhole) {
    buffers_.reserve(8);
    const std::vector<ReadRequest> one{request(0, 2 * kSmall - 1, 2 * kSmall - 1)};
    EXPECT_EQ(split_few(one, 4).size(), 1U);
}

TEST_F(SplitReads, AFailedPartFailsTheWholeOnce) {
    buffers_.reserve(8);
    plan_->add({.nth = 2, .error_number = EIO});
    const std::vector<ReadRequest> one{request(0, 8 * kSmall, 8 * kSmall)};
    auto parts = split_few(one, 4);
    engine_.submit(parts);
    engine_.finish_all();
    EXPECT_EQ(ended_, 1);
    EXPECT_FALSE(last_);
}

} // namespace
} // namespace sluice::storage
