// Kernels with pages of 4, 16 and 64 KiB: what is given back, mapped and aligned. Larger pages than the
// system's are pretended.

#include "platform/page_residency.h"
#include "platform/reserved_memory.h"
#include "residency/row_window.h"
#include "session/model_state.h"
#include "streaming/device/streaming_device.h"
#include "support/expert_cache_fixture.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// llama.cpp's own list of a model's tensors by name; exported, but in no header that is meant for others.
const std::vector<std::pair<std::string, ggml_tensor *>> &
llama_internal_get_tensor_map(const llama_model *model);

namespace sluice::test {
namespace {

using platform::MemoryUse;
using platform::ReservedMemory;

constexpr std::byte kMark{0x5A};

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [value](std::byte byte) { return byte == value; });
}

size_t over(const void *address, size_t unit) {
    return reinterpret_cast<uintptr_t>(address) % unit;
}

/// A kernel whose pages have GetParam() bytes.
class PageSize : public testing::TestWithParam<size_t> {
protected:
    void SetUp() override {
        if (page_ < platform::system_page_size()) {
            GTEST_SKIP() << "this system's pages have " << platform::system_page_size() << " bytes";
        }
        pretended_.emplace(page_);
    }
    const size_t page_ = GetParam();
    const size_t slab_ = std::max(page_, size_t{16} << 10U);
    std::optional<platform::PretendedPageSize> pretended_;
};

TEST_P(PageSize, ASlabIsAPageButNoLessThan16KiB) {
    EXPECT_EQ(residency::slab_bytes(), slab_);
}

TEST_P(PageSize, ReservedMemoryIsWholePages) {
    for (const MemoryUse use : {MemoryUse::Reserved, MemoryUse::Arena}) {
        const auto memory = ReservedMemory::reserve(page_ + 1, use);
        ASSERT_TRUE(memory) << memory.error().message;
        EXPECT_EQ(memory->bytes().size(), 2 * page_);
        EXPECT_EQ(over(memory->bytes().data(), page_), 0U);
        std::fill(memory->bytes().begin(), memory->bytes().end(), kMark);
    }
}

TEST_P(PageSize, OnlyWholePagesAreGivenBack) {
    const auto memory = *ReservedMemory::reserve(5 * page_, MemoryUse::Reserved);
    const std::span<std::byte> bytes = memory.bytes();
    std::fill(bytes.begin(), bytes.end(), kMark);
    ReservedMemory::discard_pages(bytes.subspan(page_ - 1, 3 * page_));
    EXPECT_TRUE(all_are(bytes.first(page_), kMark));
    EXPECT_TRUE(all_are(bytes.subspan(page_, 2 * page_), std::byte{0}));
    EXPECT_TRUE(all_are(bytes.subspan(3 * page_), kMark));
    ReservedMemory::discard_pages(bytes.subspan(3 * page_ + 1, page_));
    EXPECT_TRUE(all_are(bytes.subspan(3 * page_), kMark)) << "no page is whole in there";
}

TEST_P(PageSize, OnlyWholePagesAreMapped) {
    const ScratchDir dir;
    const auto file = *platform::system_files().open(dir.write_pattern("f", 4 * page_), false);
    const auto memory = *ReservedMemory::reserve(4 * page_, MemoryUse::Reserved);
    const size_t half = page_ / 2;
    EXPECT_FALSE(file->map_over(half, memory.bytes().first(page_), platform::MapAdvice::Normal));
    EXPECT_FALSE(file->map_over(0, memory.bytes().subspan(half, page_), platform::MapAdvice::Normal));
    EXPECT_FALSE(file->map_over(0, memory.bytes().first(half), platform::MapAdvice::Normal));
    ASSERT_TRUE(file->map_over(page_, memory.bytes().subspan(page_, 2 * page_), platform::MapAdvice::Normal));
    EXPECT_EQ(first_wrong(memory.bytes().subspan(page_, 2 * page_), page_), 2 * page_);
}

// -- row tables

/// A table that starts and ends inside a slab of its file, and a window for it.
class RowsBySlab : public PageSize {
protected:
    void SetUp() override {
        PageSize::SetUp();
        if (IsSkipped()) {
            return;
        }
        file_ = *platform::system_files().open(dir_.write_pattern("rows", 12 * slab_), true);
        memory_ = *ReservedMemory::reserve(12 * slab_, MemoryUse::Reserved);
        ASSERT_EQ(over(memory_.bytes().data(), slab_) % page_, 0U);
        const size_t lead = (slab_ - over(memory_.bytes().data(), slab_)) % slab_;
        table_ = {.name = "table",
                  .file = file_.get(),
                  .offset = slab_ + kResidue,
                  .bytes = 9 * slab_,
                  .data = memory_.bytes().data() + lead + kResidue};
        engine_ = *storage::make_thread_read_engine(2);
    }

    void expect_row(residency::RowWindow &window, uint64_t row) {
        residency::RowGather gather;
        ASSERT_TRUE(window.begin(gather, 0, {&row, 1}, kRow, residency::Overshoot::Allowed));
        ASSERT_TRUE(window.wait(gather));
        EXPECT_EQ(first_wrong({table_.data + row, kRow}, table_.offset + row), kRow);
        window.end(gather);
    }

    static constexpr size_t kResidue = 5000;
    static constexpr size_t kRow = 100;
    ScratchDir dir_;
    std::unique_ptr<platform::IFile> file_;
    ReservedMemory memory_;
    residency::RowTable table_;
    std::unique_ptr<storage::IReadEngine> engine_;
};

TEST_P(RowsBySlab, AreReadAndGivenBackBySlabs) {
    auto window = *residency::RowWindow::create(2 * slab_ + 1, platform::Access::Direct, *engine_);
    window->add(table_);
    for (uint64_t row = 0; row + kRow <= table_.bytes; row += slab_ / 2) {
        expect_row(*window, row);
        EXPECT_EQ(window->counters().resident_bytes % slab_, 0U);
        EXPECT_LE(window->counters().resident_bytes, 2 * slab_);
    }
    expect_row(*window, table_.bytes - kRow);
    EXPECT_EQ(window->counters().bytes_read, 10 * slab_) << "each of the slabs that it touches once";
    EXPECT_EQ(window->counters().evictions, 8U);
    EXPECT_NE(first_wrong({table_.data, kRow}, table_.offset), kRow) << "the first slab's pages are gone";
}

TEST_P(RowsBySlab, AreRefusedAWindowThatHoldsNoSlab) {
    const auto window = residency::RowWindow::create(slab_ - 1, platform::Access::Direct, *engine_);
    ASSERT_FALSE(window);
    EXPECT_NE(window.error().message.find("a slab of " + std::to_string(slab_)), std::string::npos)
        << window.error().message;
}

TEST_P(RowsBySlab, AreMappedWholeIfMemoryIsShort) {
    auto window = *residency::RowWindow::create(slab_, platform::Access::Direct, *engine_);
    window->add(table_);
    const auto how = window->materialize(0, slab_);
    ASSERT_TRUE(how) << how.error().message;
    EXPECT_EQ(*how, residency::Materialized::Mapped);
    EXPECT_EQ(first_wrong({table_.data, table_.bytes}, table_.offset), table_.bytes);
}

// -- expert slots

/// Slots of 80 KiB: with pages of 64 KiB each shares pages with both of its neighbours.
class SlotsByPage : public test::ExpertCacheFixture {
protected:
    SlotsByPage() : ExpertCacheFixture(size_t{80} << 10U) {}

    double bytes_in_memory(std::span<const std::byte> range) {
        const std::array<platform::ByteRange, 1> ranges{platform::ByteRange(range.data(), range.size())};
        const auto share = platform::sample_residency(ranges, 4096).resident;
        return share ? *share * static_cast<double>(range.size()) : -1;
    }
};

TEST_P(SlotsByPage, PagesThatSlotsShareGoBackWithTheLastOfThem) {
    constexpr size_t kPage = size_t{64} << 10U;
    const platform::PretendedPageSize pretended(kPage);
    make_cache(8);
    const std::byte *first = nullptr;
    for (uint32_t expert = 0; expert < 8; ++expert) {
        residency::Slot *slot = acquire({expert})[0];
        expect_slice(slot, expert);
        first = first == nullptr ? slot->base : std::min<const std::byte *>(first, slot->base);
        cache_->release(slot);
    }
    if (bytes_in_memory({first, 8 * stride_}) < 0) {
        GTEST_SKIP() << "this system does not tell which pages are in memory";
    }
    cache_->set_limit(2 * stride_);
    EXPECT_LE(bytes_in_memory({first, 8 * stride_}), static_cast<double>(2 * stride_ + 3 * kPage))
        << "of both ends of what is left, and of the last slot";
}

INSTANTIATE_TEST_SUITE_P(Access, SlotsByPage, testing::Values(platform::Access::Buffered), access_name);

// -- whole models

class ModelByPage : public PageSize {};

TEST_P(ModelByPage, WeightsInStreamedBuffersLieAsInTheFileAndAtWholePages) {
    auto model = Model::load({.path = tiny_model("tiny-vocab"),
                              .stream = StreamMode::Force,
                              .dense_weights = DenseWeights::Mmap,
                              .row_stream = true,
                              .row_window_bytes = slab_,
                              .repack = false});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(ggml_backend_buft_get_alignment(streaming::streamed_buffer_type()), slab_);
    streaming::StreamedStore &store = *model->state().streamed->store;
    const auto ranges = store.mapped_ranges();
    ASSERT_FALSE(ranges.empty());
    size_t looked_at = 0;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(model->state().llama.get())) {
        if (const streaming::StreamedTensor *weight = store.find(tensor)) {
            EXPECT_EQ(over(weight->data, slab_), weight->offset % slab_) << name;
            ++looked_at;
        }
    }
    EXPECT_GT(looked_at, 10U);
}

TEST_P(ModelByPage, LogitsAreStocksWithRowsBySlabAndMappedWeights) {
    for (const DenseWeights dense : {DenseWeights::Anon, DenseWeights::Mmap}) {
        const GateConfig config{
            .model = tiny_model("tiny-vocab"), .repack = false, .row_window = slab_, .dense = dense};
        pretended_.reset();
        const std::vector<float> stock = run_stock(config);
        pretended_.emplace(page_);
        EXPECT_EQ(run_streamed(config).logits, stock);
    }
}

const auto kSizes = testing::Values(size_t{4} << 10U, size_t{16} << 10U, size_t{64} << 10U);
const auto kSizeName = [](const auto &info) { return std::to_string(info.param >> 10U) + "KiB"; };
INSTANTIATE_TEST_SUITE_P(Pages, PageSize, kSizes, kSizeName);
INSTANTIATE_TEST_SUITE_P(Pages, RowsBySlab, kSizes, kSizeName);
INSTANTIATE_TEST_SUITE_P(Pages, ModelByPage, kSizes, kSizeName);

} // namespace
} // namespace sluice::test
