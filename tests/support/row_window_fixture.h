// What the tests of the row window share: a patterned file, tables in it, and an engine that tells what it
// was asked.
#pragma once

#include "platform/reserved_memory.h"
#include "residency/row_window.h"
#include "support/fault_file.h"
#include "support/temp_file.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace sluice::residency {

inline const uint64_t kSlab = slab_bytes();

/// What memory that holds no slab reads as.
#ifdef SLUICE_POISON
constexpr std::byte kVacant{0xFF};
#else
constexpr std::byte kVacant{0};
#endif

/// Notes the requests of each submit() and passes them on to real reader threads, at once or when told to.
class RecordingEngine final : public storage::IReadEngine {
public:
    void submit(std::span<storage::ReadRequest> requests) override {
        if (on_submit) {
            on_submit();
        }
        const std::lock_guard lock(mutex_);
        batches_.emplace_back(requests.begin(), requests.end());
        if (holding_) {
            held_.insert(held_.end(), requests.begin(), requests.end());
        } else {
            inner_->submit(requests);
        }
    }
    void set_width(int width) override { inner_->set_width(width); }
    [[nodiscard]] storage::ReadCounters counters() const override { return inner_->counters(); }

    /// Called first by submit(), which fails with what it throws.
    std::function<void()> on_submit;

    /// Requests wait from now on until let_go().
    void hold() {
        const std::lock_guard lock(mutex_);
        holding_ = true;
    }
    void let_go() {
        const std::lock_guard lock(mutex_);
        holding_ = false;
        inner_->submit(held_);
        held_.clear();
    }

    /// One per submit(); look at them only while nobody submits.
    [[nodiscard]] const std::vector<std::vector<storage::ReadRequest>> &batches() const { return batches_; }
    void forget_batches() { batches_.clear(); }

private:
    std::unique_ptr<storage::IReadEngine> inner_ = std::move(*storage::make_thread_read_engine(4));
    std::mutex mutex_;
    bool holding_ = false;
    std::vector<std::vector<storage::ReadRequest>> batches_;
    std::vector<storage::ReadRequest> held_;
};

/// Reserved memory that mirrors part of a file.
class Mirror {
public:
    Mirror(uint64_t offset, uint64_t bytes)
        : memory_(*platform::ReservedMemory::reserve((bytes / kSlab + 3) * kSlab,
                                                     platform::MemoryUse::Reserved)) {
        const auto address = reinterpret_cast<uintptr_t>(memory_.bytes().data());
        const uint64_t aligned = (address + kSlab - 1) / kSlab * kSlab - address;
        data_ = memory_.bytes().data() + aligned + offset % kSlab;
    }
    [[nodiscard]] std::byte *data() const { return data_; }

private:
    platform::ReservedMemory memory_;
    std::byte *data_;
};

/// A file of 40 whole slabs and a bit. A table starts inside its third slab and ends shortly before its end,
/// so that the table has 39 slabs, the last of which reaches past the end of the file.
class RowWindowFixture : public testing::TestWithParam<platform::Access> {
protected:
    static inline const uint64_t kFileBytes = 40 * kSlab + 1000;
    static constexpr uint64_t kResidue = 5000;
    static inline const uint64_t kOffset = 2 * kSlab + kResidue;
    static inline const uint64_t kBytes = kFileBytes - 300 - kOffset;
    static constexpr uint64_t kSlabs = 39;
    static constexpr size_t kRow = 100; ///< bytes, where a test does not care

    void SetUp() override {
        open_file(kFileBytes);
        if (GetParam() == platform::Access::Direct && !file_->direct_trusted()) {
            GTEST_SKIP() << file_->direct_refusal();
        }
    }

    void open_file(uint64_t bytes) {
        file_ = std::move(*files_.open(dir_.write_pattern("rows", bytes), /*want_direct=*/true));
    }

    void make_window(uint64_t slabs) {
        auto made = RowWindow::create(slabs * kSlab, GetParam(), engine_);
        ASSERT_TRUE(made) << made.error().message;
        window_ = std::move(*made);
        mirrors_.clear();
        ASSERT_EQ(add_table(kOffset, kBytes), 0U);
    }

    TableId add_table(uint64_t offset, uint64_t bytes) {
        mirrors_.emplace_back(offset, bytes);
        tables_.resize(mirrors_.size());
        tables_.back() = {.name = "table " + std::to_string(mirrors_.size() - 1),
                          .file = file_.get(),
                          .offset = offset,
                          .bytes = bytes,
                          .data = mirrors_.back().data()};
        return window_->add(tables_.back());
    }

    /// A row that lies inside slab `slab` of the first table.
    static uint64_t row_in(uint64_t slab) { return slab == 0 ? 0 : slab * kSlab - kResidue; }

    bool begin(RowGather &gather, std::initializer_list<uint64_t> slabs,
               Overshoot overshoot = Overshoot::Never) {
        std::vector<uint64_t> rows;
        for (const uint64_t slab : slabs) {
            rows.push_back(row_in(slab));
        }
        return window_->begin(gather, 0, rows, kRow, overshoot);
    }

    /// begin(), wait() and end(); true if the bytes of every row were right in between.
    bool fetch(std::span<const uint64_t> rows, size_t row_bytes, TableId table = 0) {
        RowGather gather;
        if (!window_->begin(gather, table, rows, row_bytes, Overshoot::Allowed)) {
            return false;
        }
        const Status status = window_->wait(gather);
        EXPECT_TRUE(status) << status.error().message;
        const bool right = std::all_of(rows.begin(), rows.end(),
                                       [&](uint64_t row) { return is_right(row, row_bytes, table); });
        window_->end(gather);
        return status && right;
    }
    bool fetch_slabs(std::initializer_list<uint64_t> slabs) {
        std::vector<uint64_t> rows;
        std::transform(slabs.begin(), slabs.end(), std::back_inserter(rows), row_in);
        return fetch(rows, kRow);
    }

    [[nodiscard]] bool is_right(uint64_t row, size_t row_bytes, TableId table = 0) const {
        return test::first_wrong({tables_[table].data + row, row_bytes}, tables_[table].offset + row) ==
               row_bytes;
    }

    /// Whether a slab of the first table holds nothing.
    [[nodiscard]] bool is_vacant(uint64_t slab) const {
        const std::byte *begin = tables_[0].data - kResidue + slab * kSlab;
        return std::all_of(begin, begin + kSlab, [](std::byte byte) { return byte == kVacant; });
    }

    /// Requests made so far, over all batches.
    [[nodiscard]] uint64_t reads() const { return window_->counters().reads; }
    [[nodiscard]] uint64_t resident_slabs() const { return window_->counters().resident_bytes / kSlab; }

    test::ScratchDir dir_;
    std::shared_ptr<platform::FaultPlan> plan_ = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files_{plan_};
    std::unique_ptr<platform::IFile> file_;
    std::vector<Mirror> mirrors_;
    std::vector<RowTable> tables_;
    RecordingEngine engine_;
    std::unique_ptr<RowWindow> window_;
};

inline std::string access_name(const testing::TestParamInfo<platform::Access> &info) {
    return info.param == platform::Access::Direct ? "Direct" : "Buffered";
}

} // namespace sluice::residency
