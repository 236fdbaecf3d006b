// What mapping a file over reserved memory promises, and what it refuses.
#include "platform/file.h"

#include "platform/reserved_memory.h"
#include "support/temp_file.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace sluice::platform {
namespace {

using test::first_wrong;
using test::ScratchDir;

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [=](std::byte byte) { return byte == value; });
}

class MapOver : public testing::Test {
protected:
    void SetUp() override { std::fill(memory_.bytes().begin(), memory_.bytes().end(), mark_); }

    /// Whole pages of the reservation.
    std::span<std::byte> pages(size_t first, size_t count) {
        return memory_.bytes().subspan(first * page_, count * page_);
    }

    void expect_refused(uint64_t offset, std::span<std::byte> where) {
        const Status mapped = file_->map_over(offset, where, MapAdvice::Normal);
        ASSERT_FALSE(mapped) << offset << " to " << where.size();
        EXPECT_EQ(mapped.error().code, ErrorCode::InvalidArgument);
        EXPECT_NE(mapped.error().message.find(file_->path()), std::string::npos) << mapped.error().message;
        EXPECT_TRUE(all_are(memory_.bytes(), mark_)) << "a refused map changes nothing";
    }

    const std::byte mark_{0x5A};
    const size_t page_ = page_size();
    const size_t tail_ = 777;                    ///< bytes of the file in its last page
    const size_t file_size_ = 5 * page_ + tail_; ///< six pages
    ScratchDir dir_;
    std::unique_ptr<IFile> file_ =
        *system_files().open(dir_.write_pattern("model", file_size_), /*want_direct=*/false);
    ReservedMemory memory_ = *ReservedMemory::reserve(8 * page_, MemoryUse::Reserved);
};

TEST_F(MapOver, PutsTheFilesBytesInPlaceWhateverTheAdvice) {
    for (const MapAdvice advice : {MapAdvice::Normal, MapAdvice::Random, MapAdvice::WillNeed}) {
        const Status mapped = file_->map_over(page_, pages(2, 3), advice);
        ASSERT_TRUE(mapped) << mapped.error().message;
        EXPECT_EQ(first_wrong(pages(2, 3), page_), 3 * page_);
    }
}

TEST_F(MapOver, LeavesTheMemoryAroundItAlone) {
    ASSERT_TRUE(file_->map_over(0, pages(2, 1), MapAdvice::Random));
    EXPECT_TRUE(all_are(pages(0, 2), mark_));
    EXPECT_TRUE(all_are(pages(3, 5), mark_));
}

TEST_F(MapOver, ReadsAsZeroBehindTheEndOfTheFileInItsLastPage) {
    ASSERT_TRUE(file_->map_over(4 * page_, pages(0, 2), MapAdvice::Normal));
    const std::span<std::byte> last = pages(1, 1);
    EXPECT_EQ(first_wrong(last.first(tail_), 5 * page_), tail_);
    EXPECT_TRUE(all_are(last.subspan(tail_), std::byte{0}));
}

TEST_F(MapOver, OutlivesTheFileObject) {
    ASSERT_TRUE(file_->map_over(0, pages(0, 5), MapAdvice::Normal));
    file_.reset();
    EXPECT_EQ(first_wrong(pages(0, 5), 0), 5 * page_);
}

TEST_F(MapOver, CanBeRepeatedOverAnEarlierMap) {
    ASSERT_TRUE(file_->map_over(0, pages(0, 4), MapAdvice::Normal));
    ASSERT_TRUE(file_->map_over(3 * page_, pages(1, 2), MapAdvice::Normal));
    EXPECT_EQ(first_wrong(pages(0, 1), 0), page_);
    EXPECT_EQ(first_wrong(pages(1, 2), 3 * page_), 2 * page_);
    EXPECT_EQ(first_wrong(pages(3, 1), 3 * page_), page_);
}

TEST_F(MapOver, RefusesWhatIsNotWholePages) {
    expect_refused(1, pages(0, 1));
    expect_refused(page_ / 2, pages(0, 1));
    expect_refused(0, memory_.bytes().subspan(512, page_));
    expect_refused(0, memory_.bytes().first(page_ - 1));
    expect_refused(0, {});
}

TEST_F(MapOver, RefusesPagesPastTheEndOfTheFile) {
    expect_refused(0, pages(0, 7));
    expect_refused(5 * page_, pages(0, 2));
    expect_refused(6 * page_, pages(0, 1));
    expect_refused(UINT64_MAX / page_ * page_, pages(0, 1));
}

TEST_F(MapOver, RefusesAnythingOfAnEmptyFile) {
    file_ = *system_files().open(dir_.write("empty", ""), false);
    expect_refused(0, pages(0, 1));
}

TEST_F(MapOver, AFailureNamesItsCauseAndLeavesUsableMemory) {
    // A file of one page that can be read but not mapped.
    auto unmappable = system_files().open("/sys/kernel/mm/transparent_hugepage/enabled", false);
    if (!unmappable || (*unmappable)->size() == 0) {
        GTEST_SKIP() << "this system has no file known to refuse mapping";
    }
    const Status mapped = (*unmappable)->map_over(0, pages(1, 1), MapAdvice::Random);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code, ErrorCode::Io);
    EXPECT_NE(mapped.error().message.find("No such device"), std::string::npos) << mapped.error().message;
    EXPECT_TRUE(all_are(pages(1, 1), std::byte{0}));
    std::fill(memory_.bytes().begin(), memory_.bytes().end(), mark_);
    EXPECT_TRUE(all_are(memory_.bytes(), mark_));
}

} // namespace
} // namespace sluice::platform
