// What reserved memory promises, and how a machine's memory facts are read, on faked and on this machine.
#include "platform/memory_facts.h"
#include "platform/reserved_memory.h"

#include "support/temp_file.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

namespace sluice::platform {
namespace {

using test::ScratchDir;

constexpr uint64_t mib = uint64_t{1} << 20;

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [=](std::byte byte) { return byte == value; });
}

void fill(std::span<std::byte> bytes, std::byte value) {
    std::fill(bytes.begin(), bytes.end(), value);
}

TEST(ReservedMemory, NothingIsAnEmptyObject) {
    const auto memory = ReservedMemory::reserve(0, MemoryUse::Arena);
    ASSERT_TRUE(memory);
    EXPECT_TRUE(memory->bytes().empty());
}

TEST(ReservedMemory, IsRoundedUpToPagesAndZero) {
    for (const MemoryUse use : {MemoryUse::Reserved, MemoryUse::Arena}) {
        const auto memory = ReservedMemory::reserve(page_size() + 1, use);
        ASSERT_TRUE(memory);
        EXPECT_EQ(memory->bytes().size(), 2 * page_size());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->bytes().data()) % page_size(), 0u);
        EXPECT_TRUE(all_are(memory->bytes(), std::byte{0}));
        fill(memory->bytes(), std::byte{1});
    }
}

TEST(ReservedMemory, AnArenaStartsAtAHugePage) {
    for (int i = 0; i < 3; ++i) {
        const auto memory = ReservedMemory::reserve(3 * mib + 5, MemoryUse::Arena);
        ASSERT_TRUE(memory);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->bytes().data()) % (2 * mib), 0u);
        memory->bytes().back() = std::byte{1};
    }
}

TEST(ReservedMemory, AddressSpaceCostsNothingUntilTouched) {
    const auto before = read_process_memory().resident;
    const auto memory = ReservedMemory::reserve(uint64_t{64} << 30, MemoryUse::Reserved);
    ASSERT_TRUE(memory) << memory.error().message;
    memory->bytes()[uint64_t{40} << 30] = std::byte{1};
    const auto after = read_process_memory().resident;
    if (!before || !after) {
        GTEST_SKIP() << "resident size cannot be measured here";
    }
    EXPECT_LT(*after, *before + 64 * mib);
}

TEST(ReservedMemory, TheImpossibleIsOutOfMemoryWithItsSize) {
    const size_t most = std::numeric_limits<size_t>::max();
    for (const size_t size : {most, most - page_size(), most / 4}) {
        for (const MemoryUse use : {MemoryUse::Reserved, MemoryUse::Arena}) {
            const auto memory = ReservedMemory::reserve(size, use);
            ASSERT_FALSE(memory);
            EXPECT_EQ(memory.error().code, ErrorCode::OutOfMemory);
            EXPECT_NE(memory.error().message.find(std::to_string(size)), std::string::npos);
        }
    }
}

TEST(ReservedMemory, DiscardZeroesWholePagesInsideOnly) {
    const size_t page = page_size();
    auto memory = ReservedMemory::reserve(6 * page, MemoryUse::Reserved).value();
    const std::byte one{1};
    fill(memory.bytes(), one);
    memory.discard(page - 1, 3 * page); // covers pages 1 and 2, and parts of 0 and 3
    EXPECT_TRUE(all_are(memory.bytes().first(page), one));
    EXPECT_TRUE(all_are(memory.bytes().subspan(page, 2 * page), std::byte{0}));
    EXPECT_TRUE(all_are(memory.bytes().subspan(3 * page), one));
    memory.discard(page, page - 1); // no whole page
    memory.discard(6 * page, page); // past the end
    EXPECT_TRUE(all_are(memory.bytes().subspan(3 * page), one));
    memory.discard(3 * page, std::numeric_limits<size_t>::max()); // clipped
    EXPECT_TRUE(all_are(memory.bytes().subspan(3 * page), std::byte{0}));
    fill(memory.bytes(), one); // and it can be written again
}

TEST(ReservedMemory, DiscardZeroesLockedMemoryToo) {
    const size_t page = page_size();
    auto memory = ReservedMemory::reserve(2 * page, MemoryUse::Arena).value();
    if (::mlock(memory.bytes().data(), memory.bytes().size()) != 0) {
        GTEST_SKIP() << "memory cannot be locked here";
    }
    fill(memory.bytes(), std::byte{1});
    memory.discard(0, page);
    EXPECT_TRUE(all_are(memory.bytes().first(page), std::byte{0}));
    EXPECT_TRUE(all_are(memory.bytes().subspan(page), std::byte{1}));
}

TEST(ReservedMemory, MovesWithItsBytes) {
    auto first = ReservedMemory::reserve(page_size(), MemoryUse::Arena).value();
    fill(first.bytes(), std::byte{7});
    const std::byte *where = first.bytes().data();
    ReservedMemory second(std::move(first));
    EXPECT_EQ(second.bytes().data(), where);
    EXPECT_TRUE(first.bytes().empty()); // NOLINT: moved-from is promised to be empty
    ReservedMemory third = ReservedMemory::reserve(page_size(), MemoryUse::Reserved).value();
    third = std::move(second);
    EXPECT_EQ(third.bytes().data(), where);
    EXPECT_TRUE(all_are(third.bytes(), std::byte{7}));
    EXPECT_TRUE(second.bytes().empty()); // NOLINT: as above
}

TEST(UsableMemory, IsTheSmallerOfWhatTheMachineAndTheGroupLeave) {
    const GroupMemory leaves_30{.limit = 50, .usage = 20};
    EXPECT_EQ(usable_memory({}), std::nullopt);
    EXPECT_EQ(usable_memory({.available = 70}), 70u);
    EXPECT_EQ(usable_memory({.groups = {leaves_30}}), 30u);
    EXPECT_EQ(usable_memory({.available = 70, .groups = {leaves_30}}), 30u);
    EXPECT_EQ(usable_memory({.available = 10, .groups = {leaves_30}}), 10u);
    EXPECT_EQ(usable_memory({.available = 10, .groups = {{.limit = 50, .usage = 60}}}), 0u);
    EXPECT_EQ(usable_memory({.available = 70, .groups = {{.limit = 50}}}), 50u);
}

TEST(UsableMemory, GroupThatLeavesTheLeastIsTheTightestWhateverItsLimit) {
    const MemoryFacts facts{.available = 9000,
                            .groups = {{.directory = "inner", .limit = 1000, .usage = 100},
                                       {.directory = "outer", .limit = 5000, .usage = 4800}}};
    EXPECT_EQ(usable_memory(facts), 200u);
    EXPECT_EQ(tightest_group(facts)->directory, "outer");
    EXPECT_FALSE(tightest_group({.available = 1}));
}

/// A machine made of files.
class FakeMachine : public ::testing::Test {
protected:
    MemoryFacts facts() const { return read_memory_facts(dir.path()); }
    GroupMemory tightest() const { return tightest_group(facts()).value_or(GroupMemory{}); }
    ScratchDir dir;
};

TEST_F(FakeMachine, WhatIsNotThereIsUnmeasured) {
    EXPECT_EQ(facts().total, std::nullopt);
    EXPECT_EQ(facts().available, std::nullopt);
    EXPECT_TRUE(facts().groups.empty());
    EXPECT_EQ(read_process_memory(dir.path()).resident, std::nullopt);
    EXPECT_EQ(read_process_io(dir.path()).storage_read, std::nullopt);
}

TEST_F(FakeMachine, MeminfoAndStatusAreInKibibytes) {
    dir.write("proc/meminfo", "MemTotal:       8000 kB\nMemFree:         10 kB\nMemAvailable:   4000 kB\n");
    dir.write("proc/self/status", "Name:\tsluice\nVmHWM:\t     300 kB\nVmRSS:\t     200 kB\nRssAnon:\t     "
                                  "150 kB\nVmSwap:\t       0 kB\n");
    EXPECT_EQ(facts().total, 8000u * 1024);
    EXPECT_EQ(facts().available, 4000u * 1024);
    const ProcessMemory memory = read_process_memory(dir.path());
    EXPECT_EQ(memory.peak_resident, 300u * 1024);
    EXPECT_EQ(memory.resident, 200u * 1024);
    EXPECT_EQ(memory.anonymous, 150u * 1024);
    EXPECT_EQ(memory.swapped, 0u);
}

TEST_F(FakeMachine, GarbageIsUnmeasured) {
    dir.write("proc/meminfo", "MemTotal: lots kB\nMemAvailable:\n");
    dir.write("proc/self/cgroup", "nonsense\n:\n4:memory\n");
    dir.write("proc/self/mountinfo", "- - -\n\n1 2 3\n");
    EXPECT_EQ(facts().total, std::nullopt);
    EXPECT_EQ(facts().available, std::nullopt);
    EXPECT_TRUE(facts().groups.empty());
}

TEST_F(FakeMachine, ProcessIoTellsStorageFromCache) {
    dir.write("proc/self/io", "rchar: 900\nwchar: 1\nread_bytes: 500\nwrite_bytes: 2\n");
    const ProcessIo io = read_process_io(dir.path());
    EXPECT_EQ(io.syscall_read, 900u);
    EXPECT_EQ(io.storage_read, 500u);
}

TEST_F(FakeMachine, CgroupV2TightestGroupOnTheWayUpCounts) {
    dir.write("proc/self/cgroup", "0::/a/b/c\n");
    dir.write("proc/self/mountinfo", "41 30 0:38 / /my\\040cg rw shared:5 - cgroup2 cgroup2 rw\n");
    dir.write("my cg/a/b/c/memory.max", "max\n");
    dir.write("my cg/a/b/memory.max", "1000\n");
    dir.write("my cg/a/b/memory.current", "600\n");
    dir.write("my cg/a/b/memory.stat", "anon 300\nactive_file 20\ninactive_file 100\n");
    dir.write("my cg/a/memory.max", "2000\n");
    dir.write("my cg/a/memory.current", "1\n");
    EXPECT_EQ(tightest().limit, 1000u);
    EXPECT_EQ(tightest().usage, 480u);
}

TEST_F(FakeMachine, LooserButFullerGroupFurtherUpIsTheTightest) {
    dir.write("proc/self/cgroup", "0::/slice/job\n");
    dir.write("sys/fs/cgroup/slice/job/memory.max", "1000\n");
    dir.write("sys/fs/cgroup/slice/job/memory.current", "100\n");
    dir.write("sys/fs/cgroup/slice/memory.max", "8000\n");
    dir.write("sys/fs/cgroup/slice/memory.current", "7900\n");
    dir.write("sys/fs/cgroup/slice/memory.stat", "inactive_file 10\nactive_file 20\n");
    EXPECT_EQ(tightest().limit, 8000u);
    EXPECT_EQ(usable_memory(facts()), 130u);
    EXPECT_EQ(facts().groups.size(), 2u) << "both are watched while a run goes on";
}

TEST_F(FakeMachine, CgroupV2HighIsALimitToo) {
    dir.write("proc/self/cgroup", "0::/a\n");
    dir.write("sys/fs/cgroup/a/memory.max", "max\n");
    dir.write("sys/fs/cgroup/a/memory.high", "700\n");
    dir.write("sys/fs/cgroup/a/memory.current", "200\n");
    EXPECT_EQ(tightest().limit, 700u);
    EXPECT_EQ(usable_memory(facts()), 500u);
    dir.write("sys/fs/cgroup/a/memory.max", "600\n");
    EXPECT_EQ(tightest().limit, 600u);
    dir.write("sys/fs/cgroup/a/memory.max", "900\n");
    EXPECT_EQ(tightest().limit, 700u);
    dir.write("sys/fs/cgroup/a/memory.high", "max\n");
    EXPECT_EQ(tightest().limit, 900u);
}

TEST_F(FakeMachine, GroupBesideTheNamespacesOwnIsNotLookedFor) {
    dir.write("proc/self/cgroup", "0::/../other\n");
    dir.write("sys/fs/other/memory.max", "1\n");
    dir.write("sys/fs/cgroup/memory.max", "900\n");
    EXPECT_EQ(tightest().limit, 900u);
}

TEST_F(FakeMachine, CgroupV1NeedsTheMemoryControllerAndItsHugeNumberIsNoLimit) {
    dir.write("proc/self/cgroup", "5:devices:/x\n4:cpu,memory:/x/y\n0::/\n");
    dir.write("proc/self/mountinfo", "34 30 0:31 / /cg/devices rw - cgroup cgroup rw,devices\n"
                                     "35 30 0:32 / /cg/memory rw - cgroup cgroup rw,cpu,memory\n");
    dir.write("cg/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    dir.write("cg/memory/x/memory.limit_in_bytes", "5000\n");
    dir.write("cg/memory/x/memory.usage_in_bytes", "4000\n");
    dir.write("cg/memory/x/memory.stat",
              "inactive_file 1\nactive_file 1\ntotal_inactive_file 1500\ntotal_active_file 500\n");
    dir.write("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ(tightest().limit, 5000u);
    EXPECT_EQ(tightest().usage, 2000u);
}

TEST_F(FakeMachine, EqualLimitsChargeTheOuterGroup) {
    dir.write("proc/self/cgroup", "0::/a/b\n");
    dir.write("sys/fs/cgroup/a/b/memory.max", "1000\n"); // no mountinfo: the usual place is tried
    dir.write("sys/fs/cgroup/a/b/memory.current", "100\n");
    dir.write("sys/fs/cgroup/a/memory.max", "1000\n");
    dir.write("sys/fs/cgroup/a/memory.current", "900\n");
    EXPECT_EQ(tightest().limit, 1000u);
    EXPECT_EQ(tightest().usage, 900u);
}

TEST_F(FakeMachine, InAContainerTheMountShowsOnlyOurPartOfTheTree) {
    dir.write("proc/self/cgroup", "4:memory:/docker/abc/sub\n");
    dir.write("proc/self/mountinfo",
              "35 30 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    dir.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "800\n");
    dir.write("sys/fs/cgroup/memory/sub/memory.limit_in_bytes", "700\n");
    EXPECT_EQ(tightest().limit, 700u);
    EXPECT_EQ(tightest().usage, std::nullopt) << "an unknown charge is not 0";
    dir.write("proc/self/cgroup", "4:memory:/elsewhere\n");
    EXPECT_EQ(tightest().limit, 800u);
}

TEST_F(FakeMachine, NoLimitAnywhereIsNone) {
    dir.write("proc/self/cgroup", "0::/\n");
    dir.write("sys/fs/cgroup/memory.max", "max\n");
    EXPECT_TRUE(facts().groups.empty());
}

TEST(ThisMachine, ReportsPlausibleNumbers) {
    const MemoryFacts facts = read_memory_facts();
    if (facts.total && facts.available) {
        EXPECT_LE(*facts.available, *facts.total);
    }
    const ProcessMemory memory = read_process_memory();
    if (memory.resident && memory.peak_resident) {
        EXPECT_GT(*memory.resident, 0u);
        EXPECT_LE(*memory.resident, *memory.peak_resident + mib); // both are counted lazily
    }
}

} // namespace
} // namespace sluice::platform
