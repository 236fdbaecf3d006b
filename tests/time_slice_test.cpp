// How long a reader runs before others of its core get their turn.
#include "platform/reader_thread.h"
#include "platform/time_slice.h"

#include <chrono>
#include <gtest/gtest.h>
#include <optional>
#include <sched.h>
#include <sys/resource.h>
#include <thread>

namespace sluice::platform {
namespace {

using std::chrono::microseconds;

/// Whether a slice can be set here: Linux 6.12 or later.
bool slices_can_be_set() {
    bool can = false;
    std::thread([&can] {
        set_time_slice(microseconds(700));
        can = time_slice() == microseconds(700);
    }).join();
    return can;
}

TEST(TimeSlice, OfAReaderIsShortAndItsNiceValueStays) {
    if (!slices_can_be_set()) {
        GTEST_SKIP() << "this kernel has no slices of a thread's own";
    }
    std::optional<std::chrono::nanoseconds> slice;
    int policy = -1;
    int nice = -1;
    auto reader = platform::start_reader_thread("slice-test", [&] {
        slice = time_slice();
        policy = ::sched_getscheduler(0);
        nice = ::getpriority(PRIO_PROCESS, 0);
    });
    ASSERT_TRUE(reader);
    reader->join();
    EXPECT_EQ(slice, microseconds(100));
    EXPECT_EQ(policy, SCHED_OTHER);
    EXPECT_EQ(nice, ::getpriority(PRIO_PROCESS, 0));
    EXPECT_NE(time_slice(), microseconds(100)) << "whoever starts a reader keeps its own";
}

TEST(TimeSlice, ThreadOfAnotherPolicyKeepsIt) {
    std::thread([] {
        const sched_param parameters{};
        if (::sched_setscheduler(0, SCHED_BATCH, &parameters) != 0) {
            return;
        }
        set_time_slice(microseconds(100));
        EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
        EXPECT_EQ(time_slice(), std::nullopt);
    }).join();
}

} // namespace
} // namespace sluice::platform
