// What the row window promises: which slabs are read, what stays, what goes, and whole tables.
#include "residency/row_window.h"

#include "support/row_window_fixture.h"

#include <numeric>
#include <random>

namespace sluice::residency {
namespace {

using platform::Access;

class RowWindowTest : public RowWindowFixture {};

// -- which slabs are read
// ------------------------------------------------------------------------------------

TEST_P(RowWindowTest, RowsArriveWholeWhereverTheyLie) {
    make_window(kSlabs);
    constexpr size_t row_bytes = 3000;
    std::vector<uint64_t> rows{0, kBytes - row_bytes};
    for (uint64_t slab = 1; slab < kSlabs - 1; ++slab) {
        rows.push_back(row_in(slab));        // starts a slab
        rows.push_back(row_in(slab) - 1);    // straddles two
        rows.push_back(row_in(slab) - 2999); // ends in the next one's first byte
        rows.push_back(row_in(slab) - 3000); // ends a slab
    }
    EXPECT_TRUE(fetch(rows, row_bytes));
    EXPECT_EQ(resident_slabs(), kSlabs);
}

TEST_P(RowWindowTest, TheTablesFirstAndLastByteAreRows) {
    make_window(4);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{0, kBytes - 1}, 1));
    EXPECT_EQ(resident_slabs(), 2U);
}

TEST_P(RowWindowTest, TheLastSlabReachesPastTheEndOfTheFile) {
    make_window(4);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{kBytes - 50}, 50));
    const storage::ReadRequest &read = engine_.batches().at(0).at(0);
    EXPECT_EQ(read.offset, 40 * kSlab);
    EXPECT_EQ(read.into.size(), kSlab);
    EXPECT_EQ(read.needed, 1000U);
    EXPECT_EQ(window_->counters().bytes_read, 1000U);
}

TEST_P(RowWindowTest, ARowMayBeLargerThanASlab) {
    make_window(kSlabs);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{7, 10 * kSlab + 7}, 3 * kSlab + 11));
    EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, kBytes)) << "nor is the whole table too large a row";
}

TEST_P(RowWindowTest, SlabsAreReadOnceHoweverManyRowsTheyServe) {
    make_window(8);
    const std::vector<uint64_t> rows{row_in(3), row_in(3), row_in(3) + 500, row_in(5), row_in(3) + 9000};
    EXPECT_TRUE(fetch(rows, kRow));
    EXPECT_EQ(reads(), 2U);
    EXPECT_EQ(resident_slabs(), 2U);
    EXPECT_EQ(window_->counters().rows, 5U) << "repeated ones counted each time";
}

TEST_P(RowWindowTest, ReadsAreSubmittedTogetherInAscendingOrder) {
    make_window(8);
    EXPECT_TRUE(fetch_slabs({30, 2, 17, 9, 2}));
    ASSERT_EQ(engine_.batches().size(), 1U);
    std::vector<uint64_t> offsets;
    for (const storage::ReadRequest &read : engine_.batches()[0]) {
        offsets.push_back(read.offset / kSlab - 2);
    }
    EXPECT_EQ(offsets, (std::vector<uint64_t>{2, 9, 17, 30}));
}

TEST_P(RowWindowTest, AdjacentSlabsShareARead) {
    make_window(8);
    EXPECT_TRUE(fetch_slabs({4, 5, 6, 9}));
    ASSERT_EQ(engine_.batches()[0].size(), 2U);
    EXPECT_EQ(engine_.batches()[0][0].into.size(), 3 * kSlab);
    EXPECT_EQ(window_->counters().bytes_read, 4 * kSlab);
}

TEST_P(RowWindowTest, ASlabThatIsThereSplitsARead) {
    make_window(8);
    EXPECT_TRUE(fetch_slabs({5}));
    EXPECT_TRUE(fetch_slabs({4, 5, 6}));
    EXPECT_EQ(engine_.batches()[1].size(), 2U);
    EXPECT_EQ(reads(), 3U);
}

TEST_P(RowWindowTest, NoReadOfAGatherIsLargerThanAMebibyte) {
    open_file(200 * kSlab);
    make_window(200);
    const TableId big = add_table(100, 199 * kSlab);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, 150 * kSlab, big));
    std::vector<uint64_t> sizes;
    for (const storage::ReadRequest &read : engine_.batches()[0]) {
        sizes.push_back(read.into.size() / kSlab);
    }
    EXPECT_EQ(sizes, (std::vector<uint64_t>{64, 64, 23}));
}

TEST_P(RowWindowTest, WhatIsThereIsNotReadAgain) {
    make_window(8);
    EXPECT_TRUE(fetch_slabs({1, 2}));
    EXPECT_TRUE(fetch_slabs({2, 1}));
    EXPECT_EQ(engine_.batches().size(), 1U);
}

TEST_P(RowWindowTest, NeighbouringTablesHaveTheSharedSlabEach) {
    make_window(8);
    const uint64_t border = 20 * kSlab + 1234; // in the file
    const TableId left = add_table(border - 5000, 5000);
    const TableId right = add_table(border, 5000);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{4900}, 100, left));
    EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, 100, right));
    EXPECT_EQ(reads(), 2U);
    EXPECT_EQ(resident_slabs(), 2U);
    EXPECT_TRUE(fetch(std::vector<uint64_t>{4900}, 100, left));
    EXPECT_EQ(reads(), 2U);
}

TEST_P(RowWindowTest, RowsOutsideTheTableArePassedOver) {
    make_window(8);
    RowGather gather;
    const std::vector<uint64_t> rows{kBytes - kRow + 1, kBytes, UINT64_MAX, UINT64_MAX - kRow};
    EXPECT_TRUE(window_->begin(gather, 0, rows, kRow, Overshoot::Never));
    EXPECT_TRUE(window_->wait(gather));
    window_->end(gather);
    EXPECT_TRUE(window_->begin(gather, 0, std::vector<uint64_t>{0}, kBytes + 1, Overshoot::Never));
    window_->end(gather);
    EXPECT_TRUE(engine_.batches().empty());
}

TEST_P(RowWindowTest, AGatherOfNothingNeedsNothing) {
    make_window(1);
    RowGather gather;
    EXPECT_TRUE(begin(gather, {}));
    EXPECT_TRUE(gather.active);
    EXPECT_TRUE(window_->wait(gather));
    window_->end(gather);
    EXPECT_FALSE(gather.active);
    EXPECT_TRUE(window_->wait(gather)) << "nor does one that is not active";
    window_->end(gather);
    EXPECT_TRUE(engine_.batches().empty());
}

// -- what stays and what goes
// --------------------------------------------------------------------------------

TEST(RowWindow, HoldsAtLeastOneSlab) {
    RecordingEngine engine;
    const auto window = RowWindow::create(kSlab - 1, Access::Buffered, engine);
    ASSERT_FALSE(window);
    EXPECT_EQ(window.error().code, ErrorCode::InvalidArgument);
    EXPECT_TRUE(RowWindow::create(kSlab, Access::Buffered, engine));
}

TEST_P(RowWindowTest, TheLeastRecentlyUsedSlabGoesFirst) {
    make_window(3);
    EXPECT_TRUE(fetch_slabs({1}));
    EXPECT_TRUE(fetch_slabs({2}));
    EXPECT_TRUE(fetch_slabs({3}));
    EXPECT_TRUE(fetch_slabs({1}));
    EXPECT_TRUE(fetch_slabs({4})); // instead of 2
    EXPECT_EQ(window_->counters().evictions, 1U);
    EXPECT_EQ(reads(), 4U);
    EXPECT_TRUE(fetch_slabs({1, 3, 4}));
    EXPECT_EQ(reads(), 4U);
    EXPECT_TRUE(fetch_slabs({2}));
    EXPECT_EQ(reads(), 5U);
}

TEST_P(RowWindowTest, AGathersOwnSlabsDoNotMakeRoomForEachOther) {
    make_window(3);
    EXPECT_TRUE(fetch_slabs({1}));
    EXPECT_TRUE(fetch_slabs({2}));
    EXPECT_TRUE(fetch_slabs({3}));
    EXPECT_TRUE(fetch_slabs({1, 7})); // 1 is the oldest, but asked for
    EXPECT_EQ(reads(), 4U);
    EXPECT_TRUE(fetch_slabs({1, 3, 7}));
    EXPECT_EQ(reads(), 4U);
}

TEST_P(RowWindowTest, EvictedSlabsGiveTheirMemoryBack) {
    make_window(3);
    EXPECT_TRUE(is_vacant(1));
    EXPECT_TRUE(fetch_slabs({1, 2, 8}));
    EXPECT_FALSE(is_vacant(1));
    EXPECT_TRUE(fetch_slabs({20, 21, 38}));
    EXPECT_EQ(window_->counters().evictions, 3U);
    for (const uint64_t slab : {0, 1, 2, 3, 8, 22, 37}) {
        EXPECT_TRUE(is_vacant(slab)) << slab;
    }
    EXPECT_TRUE(is_right(row_in(20), 2 * kSlab));
}

TEST_P(RowWindowTest, RoomIsMadeBeforeReadsFillIt) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({1, 2, 3, 4}));
    uint64_t vacant = 0;
    engine_.on_submit = [&] { vacant += is_vacant(1) + is_vacant(2) + is_vacant(3) + is_vacant(4); };
    EXPECT_TRUE(fetch_slabs({2, 7, 9}));
    EXPECT_EQ(vacant, 2U) << "1 and 3; 2 is asked for, and 4 is younger";
    EXPECT_EQ(resident_slabs(), 4U);
}

TEST_P(RowWindowTest, SlabsOfAnActiveGatherStay) {
    make_window(2);
    RowGather held;
    ASSERT_TRUE(begin(held, {1}));
    EXPECT_TRUE(fetch_slabs({2}));
    EXPECT_TRUE(fetch_slabs({3}));
    EXPECT_TRUE(fetch_slabs({4}));
    EXPECT_TRUE(window_->wait(held));
    EXPECT_TRUE(is_right(row_in(1), kRow));
    window_->end(held);
    EXPECT_EQ(window_->counters().evictions, 2U);
}

TEST_P(RowWindowTest, NeverRefusesWhatDoesNotFitAndChangesNothing) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({9}));
    RowGather held;
    ASSERT_TRUE(begin(held, {1, 2}));
    ASSERT_TRUE(window_->wait(held));
    const RowCounters before = window_->counters();
    RowGather refused;
    EXPECT_FALSE(begin(refused, {2, 3, 4, 9}));
    EXPECT_FALSE(refused.active);
    EXPECT_TRUE(refused.slabs.empty());
    const RowCounters after = window_->counters();
    EXPECT_EQ(after.rows, before.rows);
    EXPECT_EQ(after.reads, before.reads);
    EXPECT_EQ(after.evictions, before.evictions);
    EXPECT_EQ(after.resident_bytes, before.resident_bytes);
    EXPECT_TRUE(begin(refused, {2, 4, 9})) << "what others have pinned already counts once";
    window_->end(refused);
    window_->end(held);
}

TEST_P(RowWindowTest, AllowedExceedsTheWindowUntilTheEnd) {
    make_window(2);
    RowGather large;
    ASSERT_TRUE(begin(large, {1, 5, 9, 13, 17}, Overshoot::Allowed));
    ASSERT_TRUE(window_->wait(large));
    for (const uint64_t slab : {1, 5, 9, 13, 17}) {
        EXPECT_TRUE(is_right(row_in(slab), kRow)) << slab;
    }
    EXPECT_EQ(resident_slabs(), 5U);
    RowGather other;
    EXPECT_FALSE(begin(other, {2}));
    window_->end(large);
    EXPECT_EQ(resident_slabs(), 2U);
    EXPECT_TRUE(begin(other, {2}));
    window_->end(other);
}

TEST_P(RowWindowTest, AWindowOfOneSlabServesAnything) {
    make_window(1);
    EXPECT_TRUE(fetch_slabs({4}));
    EXPECT_TRUE(fetch_slabs({4}));
    EXPECT_EQ(reads(), 1U);
    EXPECT_TRUE(fetch_slabs({5}));
    EXPECT_TRUE(fetch(std::vector<uint64_t>{row_in(7) - 10, row_in(30)}, 20));
    EXPECT_EQ(resident_slabs(), 1U);
}

TEST_P(RowWindowTest, ASlabOnItsWayIsSharedNotReadTwice) {
    make_window(4);
    engine_.hold();
    RowGather first;
    RowGather second;
    ASSERT_TRUE(begin(first, {3, 4}));
    ASSERT_TRUE(begin(second, {4, 5}));
    ASSERT_EQ(engine_.batches().size(), 2U);
    ASSERT_EQ(engine_.batches()[1].size(), 1U);
    EXPECT_EQ(engine_.batches()[1][0].offset, kOffset + row_in(5));
    EXPECT_EQ(resident_slabs(), 3U);
    engine_.let_go();
    ASSERT_TRUE(window_->wait(second));
    EXPECT_TRUE(is_right(row_in(4), 2 * kSlab));
    ASSERT_TRUE(window_->wait(first));
    window_->end(first);
    RowGather third;
    EXPECT_FALSE(begin(third, {10, 11, 12})) << "the second gather has 4 and 5 pinned still";
    window_->end(second);
    EXPECT_TRUE(begin(third, {10, 11, 12}));
    window_->end(third);
}

TEST_P(RowWindowTest, OverlappingGathersAlwaysFindTheirRows) {
    make_window(6);
    std::mt19937 random(1); // the same numbers everywhere
    std::vector<RowGather> gathers(3);
    std::vector<std::vector<uint64_t>> rows(gathers.size());
    constexpr size_t row_bytes = 9000;
    for (int step = 0; step < 3000; ++step) {
        const size_t which = random() % gathers.size();
        RowGather &gather = gathers[which];
        if (!gather.active) {
            rows[which].resize(1 + random() % 4);
            std::generate(rows[which].begin(), rows[which].end(),
                          [&] { return random() % (kBytes - row_bytes + 1); });
            const Overshoot overshoot = random() % 2 == 0 ? Overshoot::Never : Overshoot::Allowed;
            EXPECT_EQ(window_->begin(gather, 0, rows[which], row_bytes, overshoot), gather.active);
            continue;
        }
        if (random() % 4 != 0) {
            ASSERT_TRUE(window_->wait(gather));
            for (const uint64_t row : rows[which]) {
                ASSERT_TRUE(is_right(row, row_bytes)) << "step " << step;
            }
        }
        window_->end(gather);
    }
    for (RowGather &gather : gathers) {
        window_->end(gather);
    }
    EXPECT_EQ(resident_slabs(), 6U);
}

// -- whole tables
// --------------------------------------------------------------------------------------------

TEST_P(RowWindowTest, ATableThatFitsIsReadWhole) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({1, 2}));
    for (int i = 0; i < 2; ++i) { // the second time there is nothing to do
        const auto brought = window_->materialize(0, kSlabs * kSlab);
        ASSERT_TRUE(brought) << brought.error().message;
        EXPECT_EQ(*brought, Materialized::Read);
    }
    EXPECT_TRUE(is_right(0, kBytes));
    EXPECT_EQ(reads(), 2U);
    EXPECT_EQ(plan_->counts().maps, 0U);
}

TEST_P(RowWindowTest, ATableThatDoesNotFitIsMapped) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({0, 38}));
    for (int i = 0; i < 2; ++i) {
        const auto brought = window_->materialize(0, kSlabs * kSlab - 1);
        ASSERT_TRUE(brought) << brought.error().message;
        EXPECT_EQ(*brought, Materialized::Mapped);
    }
    EXPECT_TRUE(is_right(0, kBytes));
    EXPECT_EQ(engine_.batches().size(), 1U);
    EXPECT_EQ(plan_->counts().maps, 1U);
}

TEST_P(RowWindowTest, WithoutAKnownLimitATableIsRead) {
    make_window(1);
    EXPECT_EQ(window_->materialize(0, std::nullopt).value_or(Materialized::Mapped), Materialized::Read);
    EXPECT_TRUE(is_right(0, kBytes));
}

TEST_P(RowWindowTest, LargeTablesAreReadInLargePiecesAllInFlight) {
    open_file(1100 * kSlab);
    make_window(4);
    const TableId big = add_table(3 * kSlab + 77, 1040 * kSlab);
    ASSERT_TRUE(window_->materialize(big, std::nullopt));
    EXPECT_TRUE(is_right(0, 1040 * kSlab, big));
    ASSERT_EQ(engine_.batches().size(), 1U);
    ASSERT_EQ(engine_.batches()[0].size(), 3U);
    EXPECT_EQ(engine_.batches()[0][1].into.size(), size_t{8} << 20);
    EXPECT_EQ(engine_.batches()[0][1].offset, 3 * kSlab + (uint64_t{8} << 20));
}

TEST_P(RowWindowTest, AMaterializedTableNeedsNothingAndTakesNoRoom) {
    for (const std::optional<uint64_t> memory_left :
         {std::optional<uint64_t>(), std::optional<uint64_t>(0)}) {
        make_window(2);
        const TableId other = add_table(10 * kSlab, 5 * kSlab);
        EXPECT_TRUE(fetch_slabs({1}));
        EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, kRow, other));
        ASSERT_TRUE(window_->materialize(0, memory_left));
        EXPECT_EQ(resident_slabs(), 1U);
        const uint64_t before = reads();
        RowGather all;
        ASSERT_TRUE(window_->begin(all, 0, std::vector<uint64_t>{0}, kBytes, Overshoot::Never));
        EXPECT_TRUE(window_->wait(all));
        EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, kRow, other)) << "other tables keep their slabs";
        EXPECT_EQ(reads(), before);
        window_->end(all);
        EXPECT_TRUE(fetch(std::vector<uint64_t>{0}, 5 * kSlab, other));
        EXPECT_TRUE(is_right(0, kBytes)) << "nothing of it is evicted";
    }
}

INSTANTIATE_TEST_SUITE_P(Access, RowWindowTest, testing::Values(Access::Buffered, Access::Direct),
                         access_name);

} // namespace
} // namespace sluice::residency
