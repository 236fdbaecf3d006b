// What a process is told about its own cost.

#include "platform/process_usage.h"
#include "platform/reserved_memory.h"
#include "support/temp_file.h"

#include <gtest/gtest.h>
#include <vector>

namespace sluice::platform {
namespace {

TEST(ProcessUsage, TouchedPagesAreMinorFaultsAndUsedTimeIsProcessorTime) {
    const ProcessMeter meter;
    const ProcessUsage before = meter.read();
    std::vector<char> memory(size_t{64} * page_size());
    for (size_t i = 0; i < memory.size(); i += page_size() / 2) {
        memory[i] = 1;
    }
    const ProcessUsage after = meter.read();
    ASSERT_TRUE(before.minor_faults && after.minor_faults && before.cpu_seconds && after.cpu_seconds);
    EXPECT_GT(*after.minor_faults, *before.minor_faults);
    EXPECT_GE(*after.cpu_seconds, *before.cpu_seconds);
}

TEST(ProcessUsage, ResidentSetIsTheSecondNumberOfStatmInPages) {
    const test::ScratchDir root;
    root.write("proc/self/statm", "900 17 5 1 0 100 0\n");
    EXPECT_EQ(ProcessMeter(root.path()).read().resident, 17 * page_size());
}

TEST(ProcessUsage, SwapInsAreTheSystems) {
    const test::ScratchDir root;
    root.write("proc/meminfo", "MemTotal: 100 kB\nSwapTotal:   2048 kB\n");
    root.write("proc/vmstat", "zswpin 3\npgpgin 4\npswpin 4711\npswpout 9\n");
    EXPECT_EQ(ProcessMeter(root.path()).read().swap_ins, 4711U);
}

TEST(ProcessUsage, WithoutSwapNothingIsSwappedIn) {
    const test::ScratchDir root;
    root.write("proc/meminfo", "MemTotal: 100 kB\nSwapTotal:      0 kB\n");
    EXPECT_EQ(ProcessMeter(root.path()).read().swap_ins, 0U);
}

TEST(ProcessUsage, WhatTheSystemDoesNotTellIsEmpty) {
    const test::ScratchDir root;
    const ProcessUsage usage = ProcessMeter(root.path()).read();
    EXPECT_FALSE(usage.swap_ins);
    EXPECT_FALSE(usage.resident);
}

} // namespace
} // namespace sluice::platform
