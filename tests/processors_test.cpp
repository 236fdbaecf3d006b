// Which processors count, and how many threads compute by default.
#include "platform/processors.h"

#include "support/temp_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <thread>

namespace sluice::platform {
namespace {

using test::ScratchDir;

/// A machine made of files, on which this process may run on processors 0 to count - 1.
class FakeProcessors : public ::testing::Test {
protected:
    Processors read(size_t count) const {
        std::vector<size_t> allowed(count);
        for (size_t cpu = 0; cpu < count; ++cpu) {
            allowed[cpu] = cpu;
        }
        return read_processors(dir.path(), allowed);
    }

    void write_cpu(size_t cpu, const std::string &file, const std::string &text) const {
        dir.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file, text + "\n");
    }

    ScratchDir dir;
};

TEST_F(FakeProcessors, HyperThreadsOfACoreCountOnce) {
    for (size_t cpu = 0; cpu < 8; ++cpu) {
        const size_t first = cpu % 4;
        write_cpu(cpu, "topology/thread_siblings_list",
                  std::to_string(first) + "," + std::to_string(first + 4));
    }
    EXPECT_EQ(read(8).cores, 4);
    EXPECT_EQ(read(8).allowed, 8);
    EXPECT_EQ(read(5).cores, 4) << "of a core that is allowed in part one thread is enough";
    EXPECT_EQ(read(2).cores, 2);
}

TEST_F(FakeProcessors, WithoutATopologyEveryAllowedProcessorIsACore) {
    EXPECT_EQ(read(3).cores, 3);
}

TEST_F(FakeProcessors, ProcessorsOfTheMachineAreCountedInItsList) {
    EXPECT_EQ(read(2).online, std::nullopt);
    dir.write("sys/devices/system/cpu/online", "0-3,8,10-11\n");
    EXPECT_EQ(read(2).online, 7);
    dir.write("sys/devices/system/cpu/online", "\n");
    EXPECT_EQ(read(2).online, std::nullopt);
}

TEST_F(FakeProcessors, WithoutAnAffinityTheMachineIsAskedAndNothingIsKnownToBeAllowed) {
    const Processors processors = read_processors(dir.path(), {});
    EXPECT_GE(processors.cores, 1);
    EXPECT_EQ(processors.allowed, std::nullopt);
}

TEST_F(FakeProcessors, CoresWithoutCapacitiesAreAllAlike) {
    write_cpu(0, "cpu_capacity", "1024");
    EXPECT_EQ(read(1).fast_cores, 1);
    EXPECT_EQ(read(2).fast_cores, std::nullopt) << "one is unknown";
}

TEST_F(FakeProcessors, SlowCoresAreNotCounted) {
    for (size_t cpu = 0; cpu < 8; ++cpu) {
        write_cpu(cpu, "cpu_capacity", cpu < 4 ? "325" : "1024");
    }
    EXPECT_EQ(read(8).cores, 8);
    EXPECT_EQ(read(8).fast_cores, 4);
    EXPECT_EQ(read(4).fast_cores, 4) << "where nothing else is allowed, they are the fast ones";
    EXPECT_EQ(read(5).fast_cores, 5) << "one at full speed does less than five at a third of it";
}

TEST_F(FakeProcessors, NoQuotaAnywhereIsNone) {
    EXPECT_EQ(read(2).quota, std::nullopt);
    dir.write("proc/self/cgroup", "2:cpu,cpuacct:/a\n0::/a\n");
    dir.write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    dir.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    dir.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(read(2).quota, std::nullopt);
}

TEST_F(FakeProcessors, CgroupV2TightestQuotaOnTheWayUpCounts) {
    dir.write("proc/self/cgroup", "0::/a/b/c\n");
    dir.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    dir.write("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    dir.write("sys/fs/cgroup/a/cpu.max", "125000 50000\n");
    EXPECT_EQ(read(8).quota, 2.5);
}

TEST_F(FakeProcessors, CgroupV1TightestQuotaOnTheWayUpCounts) {
    dir.write("proc/self/cgroup", "3:cpu,cpuacct:/a/b\n4:memory:/m\n");
    dir.write("proc/self/mountinfo", "35 30 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    dir.write("cg/cpu/a/b/cpu.cfs_quota_us", "300000\n");
    dir.write("cg/cpu/a/b/cpu.cfs_period_us", "100000\n");
    dir.write("cg/cpu/a/cpu.cfs_quota_us", "50000\n");
    dir.write("cg/cpu/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(read(8).quota, 0.5);
}

TEST_F(FakeProcessors, GarbageIsNoQuota) {
    dir.write("proc/self/cgroup", "0::/a\n");
    for (const char *text : {"", "100000", "lots of it", "100000 0", "100000 x"}) {
        dir.write("sys/fs/cgroup/a/cpu.max", text);
        EXPECT_EQ(read(8).quota, std::nullopt) << text;
    }
}

TEST(CoresWorthUsing, AreThoseThatDoMostWhereTheSlowestDecides) {
    EXPECT_EQ(cores_worth_using({}), 0);
    EXPECT_EQ(cores_worth_using({1024, 1024}), 2);
    EXPECT_EQ(cores_worth_using({400, 1024, 400, 1024, 1024, 400, 1024, 400}), 4);
    EXPECT_EQ(cores_worth_using({1024, 870, 870, 870, 340, 340, 340, 340}), 4) << "three sorts of cores";
    EXPECT_EQ(cores_worth_using({1024, 1024, 700, 700}), 4) << "little slower, and twice as many";
    EXPECT_EQ(cores_worth_using({1024, 400, 400, 400, 400, 400, 400, 400}), 8);
    EXPECT_EQ(cores_worth_using({1024, 1024, 512, 512}), 2) << "as quick with fewer";
}

TEST(DefaultThreads, AreTheSmallerOfCoresAndQuotaAndSayWhich) {
    const auto expect = [](const Processors &processors, int threads, const std::string &reason) {
        const ThreadChoice choice = default_threads(processors);
        EXPECT_EQ(choice.threads, threads) << choice.reason;
        EXPECT_EQ(choice.reason.find(reason), 0U) << choice.reason;
    };
    expect({.cores = 4}, 4, "physical cores");
    expect({.cores = 4, .quota = 4.0}, 4, "physical cores");
    expect({.cores = 16, .quota = 2.0}, 2, "the control group allows 2.0 cores");
    expect({.cores = 16, .quota = 2.9}, 2, "the control group allows 2.9 cores");
    expect({.cores = 16, .quota = 0.5}, 1, "the control group allows 0.5 cores");
    expect({.cores = 8, .fast_cores = 4}, 4, "4 fast cores of 8");
    expect({.cores = 8, .fast_cores = 8}, 8, "physical cores");
    expect({.cores = 8, .fast_cores = 4, .quota = 3.0}, 3, "the control group allows 3.0 cores");
    expect({.cores = 8, .fast_cores = 4, .quota = 6.0}, 4, "4 fast cores of 8");
    expect({.cores = 4, .allowed = 8, .online = 8}, 4, "physical cores");
    expect({.cores = 1, .allowed = 1, .online = 8}, 1,
           "cores among the 1 of 8 processors that compute threads may run on");
    expect({.cores = 4, .allowed = 4, .online = 8, .quota = 2.0}, 2, "the control group");
    expect({.cores = 4, .runtime_limit = 4}, 4, "physical cores");
    expect({.cores = 4, .quota = 3.0, .runtime_limit = 2}, 2, "OMP_THREAD_LIMIT allows no more");
}

TEST(ThreadsThatCompute, AreThoseAskedForAsFarAsTheRuntimeHasThem) {
    EXPECT_EQ(threads_that_compute(0, {.cores = 4}), 4);
    EXPECT_EQ(threads_that_compute(6, {.cores = 4, .quota = 2.0}), 6);
    EXPECT_EQ(threads_that_compute(6, {.cores = 4, .runtime_limit = 3}), 3);
    EXPECT_EQ(threads_that_compute(2, {.cores = 4, .runtime_limit = 3}), 2);
}

TEST(TooManyThreads, AreThoseAboveAffinityQuotaOrTheRuntimesLimit) {
    EXPECT_FALSE(too_many_threads(64, {.cores = 2})) << "nothing is known";
    EXPECT_FALSE(too_many_threads(4, {.cores = 2, .allowed = 4})) << "hyper-threads may be used";
    EXPECT_FALSE(too_many_threads(2, {.cores = 2, .allowed = 4, .quota = 2.0}));
    EXPECT_FALSE(too_many_threads(1, {.cores = 2, .allowed = 4, .quota = 0.5})) << "fewer are impossible";
    const auto affinity = too_many_threads(5, {.cores = 2, .allowed = 4});
    ASSERT_TRUE(affinity);
    EXPECT_NE(affinity->find("may run on 4 processors"), std::string::npos) << *affinity;
    const auto limit = too_many_threads(3, {.cores = 4, .runtime_limit = 2});
    ASSERT_TRUE(limit);
    EXPECT_NE(limit->find("OMP_THREAD_LIMIT"), std::string::npos) << *limit;
    EXPECT_FALSE(too_many_threads(2, {.cores = 4, .runtime_limit = 2}));
    const auto quota = too_many_threads(3, {.cores = 2, .allowed = 4, .quota = 2.5});
    ASSERT_TRUE(quota);
    EXPECT_NE(quota->find("the control group allows 2.5 cores"), std::string::npos) << *quota;
}

TEST(ThisMachine, ItsProcessorsAreThoseOfTheCallingThread) {
#ifdef __linux__
    const std::vector<size_t> before = allowed_processors();
    if (before.size() < 2) {
        GTEST_SKIP() << "this process may run on one processor only";
    }
    // A thread of its own, since an affinity stays.
    std::thread([&before] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(before.back(), &one);
        ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
        EXPECT_EQ(allowed_processors(), std::vector<size_t>{before.back()});
        EXPECT_EQ(read_processors().cores, 1);
        EXPECT_TRUE(too_many_threads(2, read_processors()));
    }).join();
    EXPECT_EQ(allowed_processors(), before);
    EXPECT_GE(read_processors().cores, 1);
    EXPECT_LE(read_processors().cores, static_cast<int>(before.size()));
#endif
}

} // namespace
} // namespace sluice::platform
