// What the row window promises when reads fail or dawdle and when memory runs out, and the set of slabs below
// it.
#include "residency/row_window.h"

#include "support/failing_new.h"
#include "support/row_window_fixture.h"

#include <cerrno>
#include <cstdlib>
#include <list>
#include <new>
#include <random>
#include <set>
#include <string>

namespace sluice::residency {
namespace {

using platform::Access;
using std::chrono::milliseconds;

using test::Allocations;
using test::FailingAllocation;

class RowWindowFaultTest : public RowWindowFixture {
protected:
    /// Reads that start at slab `slab` of the first table or behind it fail, however they are tried.
    void fail_from(uint64_t slab) {
        plan_->add({.and_after = true, .from_offset = 2 * kSlab + slab * kSlab, .error_number = EIO});
    }
};

TEST_P(RowWindowFaultTest, AFailedReadNamesTableFileOffsetAndCause) {
    make_window(8);
    fail_from(5);
    RowGather gather;
    ASSERT_TRUE(begin(gather, {2, 5, 9}));
    const Status status = window_->wait(gather);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Io);
    const std::string &message = status.error().message;
    EXPECT_EQ(message.find("rows of table 0: "), 0U) << message;
    EXPECT_NE(message.find(file_->path()), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(7 * kSlab)), std::string::npos) << "the first: " << message;
    EXPECT_NE(message.find("Input/output error"), std::string::npos) << message;
    EXPECT_FALSE(window_->wait(gather)) << "asked again it says so again";
    window_->end(gather);
    EXPECT_EQ(window_->counters().errors, 2U);
}

TEST_P(RowWindowFaultTest, FailedSlabsAreReadAgainOthersAreNot) {
    make_window(8);
    // Half of the read arrives before it fails.
    plan_->add({.nth = 1, .from_offset = 7 * kSlab, .short_by = kSlab + 5000});
    plan_->add({.nth = 2, .and_after = true, .from_offset = 7 * kSlab, .error_number = EIO});
    RowGather gather;
    ASSERT_TRUE(begin(gather, {2, 5, 6}));
    ASSERT_FALSE(window_->wait(gather));
    EXPECT_TRUE(is_right(row_in(2), kRow));
    window_->end(gather);
    EXPECT_EQ(resident_slabs(), 1U);
    EXPECT_TRUE(is_vacant(5)) << "what a failed read left behind is given back";
    EXPECT_TRUE(is_vacant(6));
    plan_->clear();
    engine_.forget_batches();
    EXPECT_TRUE(fetch_slabs({2, 5, 6}));
    ASSERT_EQ(engine_.batches().size(), 1U);
    EXPECT_EQ(engine_.batches()[0].size(), 1U);
}

TEST_P(RowWindowFaultTest, AFailureIsEverybodysWhoWaitedForTheSlab) {
    make_window(8);
    fail_from(5);
    engine_.hold();
    RowGather first;
    RowGather second;
    ASSERT_TRUE(begin(first, {5, 6}));
    ASSERT_TRUE(begin(second, {6}));
    engine_.let_go();
    EXPECT_FALSE(window_->wait(first));
    window_->end(first);
    EXPECT_EQ(resident_slabs(), 1U) << "6 is pinned still";
    const Status status = window_->wait(second);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find("Input/output error"), std::string::npos);
    window_->end(second);
    EXPECT_EQ(resident_slabs(), 0U);
    plan_->clear();
    EXPECT_TRUE(fetch_slabs({5, 6}));
}

TEST_P(RowWindowFaultTest, AFileCutShortIsAnErrorNotZeros) {
    make_window(8);
    const TableId cut = add_table(kFileBytes - 500, 1000); // longer than the file
    RowGather gather;
    ASSERT_TRUE(window_->begin(gather, cut, std::vector<uint64_t>{0}, kRow, Overshoot::Never));
    const Status status = window_->wait(gather);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidFormat);
    window_->end(gather);
    EXPECT_FALSE(window_->materialize(cut, std::nullopt));
}

TEST_P(RowWindowFaultTest, EndWaitsForReadsNobodyWaitedFor) {
    make_window(2);
    plan_->add({.and_after = true, .delay = milliseconds(20)});
    RowGather gather;
    ASSERT_TRUE(begin(gather, {1, 5, 9}, Overshoot::Allowed));
    window_->end(gather);
    EXPECT_EQ(plan_->counts().reads, 3U);
    EXPECT_EQ(resident_slabs(), 2U);
    EXPECT_TRUE(is_vacant(1)) << "no read may land in memory given back";
    plan_->clear();
    plan_->add({.and_after = true, .error_number = EIO});
    ASSERT_TRUE(begin(gather, {20}));
    window_->end(gather);
    EXPECT_EQ(resident_slabs(), 1U) << "one made room for 20, which failed";
}

TEST_P(RowWindowFaultTest, ReadsMayEndInAnyOrder) {
    make_window(8);
    plan_->add({.nth = 1, .delay = milliseconds(30)});
    plan_->add({.nth = 3, .delay = milliseconds(15)});
    EXPECT_TRUE(fetch_slabs({1, 3, 5, 7, 9, 11}));
}

TEST_P(RowWindowFaultTest, AGatherWaitsForItsOwnReadsOnly) {
    make_window(8);
    plan_->add({.nth = 1, .delay = milliseconds(30)});
    RowGather own;
    RowGather other;
    ASSERT_TRUE(begin(own, {1}));
    engine_.hold();
    ASSERT_TRUE(begin(other, {5}));
    ASSERT_TRUE(window_->wait(own)) << "though the other one's read does not end";
    EXPECT_TRUE(is_right(row_in(1), kRow));
    window_->end(own);
    engine_.let_go();
    EXPECT_TRUE(window_->wait(other));
    window_->end(other);
}

TEST_P(RowWindowFaultTest, DestructionWaitsForReadsInFlight) {
    make_window(8);
    plan_->add({.and_after = true, .delay = milliseconds(20)});
    RowGather gather;
    ASSERT_TRUE(begin(gather, {1, 3, 5, 7, 9}));
    window_.reset();
    EXPECT_EQ(plan_->counts().reads, 5U);
    EXPECT_EQ(engine_.counters().reads, 5U);
}

TEST_P(RowWindowFaultTest, ReadsAreDirectWhereTheFileIsTrusted) {
    make_window(8);
    EXPECT_TRUE(fetch_slabs({1, 3, 38}));
    EXPECT_EQ(plan_->counts().direct_reads, GetParam() == Access::Direct ? 3U : 0U);
    EXPECT_EQ(plan_->counts().reads, 3U);
    EXPECT_EQ(engine_.counters().fallbacks, 0U);
    file_ = std::move(*files_.open(file_->path(), /*want_direct=*/false));
    make_window(8);
    EXPECT_TRUE(fetch_slabs({1, 3, 38}));
    EXPECT_EQ(engine_.batches().back().front().access, Access::Buffered);
}

TEST_P(RowWindowFaultTest, ADirectReadThatFailsIsFinishedBuffered) {
    make_window(8);
    plan_->add({.and_after = true, .only = Access::Direct, .error_number = EINVAL});
    EXPECT_TRUE(fetch_slabs({1, 3, 38}));
    EXPECT_EQ(engine_.counters().fallbacks, GetParam() == Access::Direct ? 3U : 0U);
    EXPECT_EQ(window_->counters().errors, 0U);
}

TEST_P(RowWindowFaultTest, ShortReadsAreCompleted) {
    make_window(8);
    plan_->add({.nth = 1, .short_by = 5000});
    plan_->add({.nth = 2, .no_progress = true});
    EXPECT_TRUE(fetch_slabs({1, 2, 3, 38}));
}

TEST_P(RowWindowFaultTest, ATableThatCannotBeReadWholeStaysATableOfRows) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({1, 38}));
    plan_->add({.and_after = true, .error_number = EIO});
    const auto brought = window_->materialize(0, std::nullopt);
    ASSERT_FALSE(brought);
    EXPECT_EQ(brought.error().code, ErrorCode::Io);
    EXPECT_EQ(brought.error().message.find("cannot bring in table 0: "), 0U) << brought.error().message;
    plan_->clear();
    EXPECT_EQ(resident_slabs(), 0U) << "the attempt may have spoiled what was there";
    for (uint64_t slab = 0; slab < kSlabs; ++slab) {
        EXPECT_TRUE(is_vacant(slab));
    }
    EXPECT_TRUE(fetch_slabs({1, 38}));
    EXPECT_TRUE(window_->materialize(0, std::nullopt));
    EXPECT_TRUE(is_right(0, kBytes));
}

TEST_P(RowWindowFaultTest, ATableThatCannotBeMappedStaysATableOfRows) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({1}));
    plan_->fail_maps(ENOMEM);
    const auto brought = window_->materialize(0, 0);
    ASSERT_FALSE(brought);
    EXPECT_EQ(brought.error().code, ErrorCode::OutOfMemory);
    EXPECT_NE(brought.error().message.find("table 0"), std::string::npos) << brought.error().message;
    EXPECT_TRUE(fetch_slabs({1, 2}));
    plan_->clear();
    EXPECT_EQ(window_->materialize(0, 0).value_or(Materialized::Read), Materialized::Mapped);
    EXPECT_TRUE(is_right(0, kBytes));
}

TEST_P(RowWindowFaultTest, WithoutMemoryABeginPinsNothingWhereverItFails) {
    std::vector<uint64_t> rows;
    for (uint64_t slab = 1; slab < kSlabs; slab += 2) {
        rows.push_back(row_in(slab));
    }
    int failures = 0;
    for (int nth = 0;; ++nth) {
        make_window(4);
        EXPECT_TRUE(fetch_slabs({1, 38}));
        RowGather held;
        ASSERT_TRUE(begin(held, {7}));
        const RowCounters before = window_->counters();
        RowGather gather;
        bool failed = false;
        try {
            const FailingAllocation failing(Allocations::OfThisThread, nth);
            window_->begin(gather, 0, rows, kRow, Overshoot::Allowed);
        } catch (const std::bad_alloc &) {
            failed = true;
        }
        if (!failed) {
            EXPECT_TRUE(window_->wait(gather));
            window_->end(gather);
            window_->end(held);
            break;
        }
        ++failures;
        EXPECT_FALSE(gather.active);
        EXPECT_TRUE(gather.slabs.empty());
        EXPECT_EQ(window_->counters().rows, before.rows);
        EXPECT_EQ(window_->counters().reads, before.reads);
        EXPECT_EQ(window_->counters().bytes_read, before.bytes_read);
        EXPECT_LE(window_->counters().resident_bytes, before.resident_bytes);
        ASSERT_TRUE(begin(gather, {20, 21, 22})) << "something but 7 is pinned, allocation " << nth;
        window_->end(gather);
        window_->end(held);
        EXPECT_TRUE(fetch(rows, kRow));
    }
    EXPECT_GE(failures, 5) << "the window, its scratch and the engine all allocate";
}

TEST_P(RowWindowFaultTest, ABeginThatCannotSubmitLeavesOnlySlabsThatWereThere) {
    make_window(4);
    EXPECT_TRUE(fetch_slabs({1, 2}));
    engine_.on_submit = [] { throw std::bad_alloc(); };
    RowGather gather;
    EXPECT_THROW(begin(gather, {2, 5, 6, 9}), std::bad_alloc);
    EXPECT_FALSE(gather.active);
    EXPECT_EQ(resident_slabs(), 1U) << "1 had made room";
    EXPECT_EQ(reads(), 1U);
    engine_.on_submit = nullptr;
    ASSERT_TRUE(begin(gather, {20, 21, 22, 23})) << "nothing is pinned";
    window_->end(gather);
    EXPECT_TRUE(fetch_slabs({2, 5, 6, 9}));
}

TEST_P(RowWindowFaultTest, AGatherOfWhatIsThereAllocatesNothing) {
    make_window(4);
    const std::vector<uint64_t> rows{row_in(2), row_in(7), row_in(30)};
    RowGather gather;
    ASSERT_TRUE(window_->begin(gather, 0, rows, kRow, Overshoot::Never));
    window_->end(gather);
    bool begun = false;
    bool there = false;
    {
        const FailingAllocation failing(Allocations::OfThisThread, 0);
        begun = window_->begin(gather, 0, rows, kRow, Overshoot::Never);
        there = window_->wait(gather).has_value();
        window_->end(gather);
    }
    EXPECT_TRUE(begun && there);
}

INSTANTIATE_TEST_SUITE_P(Access, RowWindowFaultTest, testing::Values(Access::Buffered, Access::Direct),
                         access_name);

TEST(SlabSet, FindsWhatItHoldsAndOrdersByUse) {
    SlabSet set;
    std::set<uint64_t> held;
    std::list<uint64_t> order; // oldest first
    std::mt19937_64 random(1);
    for (int step = 0; step < 20000; ++step) {
        const uint64_t key = ((random() % 3) << 40) + random() % 300;
        Slab *slab = set.find(key);
        ASSERT_EQ(slab != nullptr, held.contains(key));
        if (slab == nullptr) {
            set.reserve_more(1);
            slab = &set.insert(key);
            held.insert(key);
        } else {
            set.pin(*slab);
            order.remove(key);
        }
        ASSERT_EQ(slab->key, key);
        EXPECT_EQ(set.pinned(), 1U);
        set.unpin(*slab);
        order.push_back(key);
        if (random() % 3 == 0) {
            ASSERT_EQ(set.oldest()->key, order.front());
            held.erase(order.front());
            order.pop_front();
            set.erase(*set.oldest());
        }
        ASSERT_EQ(set.size(), held.size());
    }
}

TEST(SlabSet, PinnedSlabsAreNotInTheOrder) {
    SlabSet set;
    set.reserve_more(2);
    Slab &a = set.insert(1);
    Slab &b = set.insert(2);
    EXPECT_EQ(set.oldest(), nullptr);
    set.pin(a);
    set.unpin(a);
    EXPECT_EQ(set.oldest(), nullptr) << "pinned once more";
    set.unpin(b);
    set.unpin(a);
    EXPECT_EQ(set.oldest(), &b);
    EXPECT_EQ(b.newer, &a);
    EXPECT_EQ(set.pinned(), 0U);
}

} // namespace
} // namespace sluice::residency
