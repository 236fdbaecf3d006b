// How long threads wait for a processor, as the kernel says it, and as faked files do.

#include "platform/processor_waits.h"
#include "support/temp_file.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace sluice::platform {
namespace {

TEST(ProcessorWaits, AreTheSumOfAllThreads) {
    const test::ScratchDir root;
    root.write("proc/self/task/1/schedstat", "900 30 5\n");
    root.write("proc/self/task/2/schedstat", "7 12 1\n");
    root.write("proc/self/task/3/comm", "without statistics\n");
    EXPECT_EQ(waited_for_processors(root.path()), 42U);
}

TEST(ProcessorWaits, AreUnknownWithoutStatistics) {
    const test::ScratchDir root;
    EXPECT_EQ(waited_for_processors(root.path()), std::nullopt);
    root.write("proc/self/task/1/comm", "x\n");
    EXPECT_EQ(waited_for_processors(root.path()), std::nullopt);
    ProcessorWaits waits(root.path());
    EXPECT_EQ(waits.share(), std::nullopt);
}

TEST(ProcessorWaits, OfAThreadThatEndedAreNotNegative) {
    const test::ScratchDir root;
    root.write("proc/self/task/1/schedstat", "900 30 5\n");
    ProcessorWaits waits(root.path());
    root.write("proc/self/task/1/schedstat", "900 10 5\n");
    EXPECT_EQ(waits.share(), 0.0);
}

TEST(ProcessorWaits, GrowWhereThreadsShareACore) {
    if (!waited_for_processors()) {
        GTEST_SKIP() << "this kernel keeps no statistics of its scheduler";
    }
    const uint64_t before = *waited_for_processors();
    std::atomic<bool> stop{false};
    std::vector<std::thread> crowd;
    for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
        crowd.emplace_back([&] {
            while (!stop) {
            }
        });
    }
    while (*waited_for_processors() == before) {
        std::this_thread::yield();
    }
    stop = true;
    for (std::thread &thread : crowd) {
        thread.join();
    }
}

} // namespace
} // namespace sluice::platform
