// Compute threads that wait for each other at ggml's barriers sleep, and a user's own variables win.
//
// Times of day prove nothing on a busy machine; the processor time of the thread that waits does.

#include "ggml-cpu.h"
#include "ggml.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kThreads = 2;
constexpr std::chrono::milliseconds kHeldUp{200};

double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of each compute thread when it came to one node and when it came to the next.
struct Visits {
    std::array<double, kThreads> before{};
    std::array<double, kThreads> after{};
};

/// The first thread holds the others up, asleep.
void hold_up(ggml_tensor *, int thread, int, void *data) {
    static_cast<Visits *>(data)->before.at(static_cast<size_t>(thread)) = thread_seconds();
    if (thread == 0) {
        std::this_thread::sleep_for(kHeldUp);
    }
}

void go_on(ggml_tensor *, int thread, int, void *data) {
    static_cast<Visits *>(data)->after.at(static_cast<size_t>(thread)) = thread_seconds();
}

/// Seconds of processor time that the second thread took to wait for the first at one of ggml's barriers.
double cost_of_waiting() {
    std::vector<std::byte> memory(1U << 20U);
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
        ggml_init({.mem_size = memory.size(), .mem_buffer = memory.data(), .no_alloc = false}), &ggml_free);
    Visits visits;
    ggml_tensor *first =
        ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, hold_up, kThreads, &visits);
    ggml_tensor *second =
        ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, &first, 1, go_on, kThreads, &visits);
    ggml_cgraph *graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, second);
    ggml_threadpool_params params = ggml_threadpool_params_default(kThreads);
    ggml_threadpool *pool = ggml_threadpool_new(&params);
    ggml_cplan plan = ggml_graph_plan(graph, kThreads, pool);
    std::vector<uint8_t> work(plan.work_size + 1);
    plan.work_data = work.data();
    ggml_graph_compute(graph, &plan);
    ggml_threadpool_free(pool);
    return visits.after[1] - visits.before[1];
}

TEST(SleepingBarriers, WhoWaitsTakesHardlyAnyProcessorTime) {
    const double cost = cost_of_waiting();
    EXPECT_LT(cost, 0.05 * std::chrono::duration<double>(kHeldUp).count());
}

TEST(SleepingBarriers, TheProgramSetsWhatTheUserDidNot) {
    ASSERT_NE(std::getenv("GOMP_SPINCOUNT"), nullptr);
    EXPECT_STREQ(std::getenv("GOMP_SPINCOUNT"), "1000");
}

/// Runs this program's named test (a disabled one) anew with a variable set. Its exit status.
int run_with(const std::string &variable, const std::string &test) {
    std::string self(4096, '\0');
    const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
    self.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    const std::string line = "env -u GOMP_SPINCOUNT " + variable + " '" + self +
                             "' --gtest_also_run_disabled_tests --gtest_filter='" + test +
                             "' >/dev/null 2>&1";
    return std::system(line.c_str());
}

TEST(SleepingBarriers, DISABLED_WaitingTakesProcessorTime) {
    EXPECT_GT(cost_of_waiting(), 0.1 * std::chrono::duration<double>(kHeldUp).count());
}

TEST(SleepingBarriers, AUsersOwnSpinCountWins) {
    EXPECT_EQ(run_with("GOMP_SPINCOUNT=infinite", "*DISABLED_WaitingTakesProcessorTime"), 0);
}

TEST(SleepingBarriers, AVariableThatMeansNothingIsNobodysWish) {
    for (const char *variable : {"GOMP_SPINCOUNT=", "GOMP_SPINCOUNT=abc",
                                 "OMP_WAIT_POLICY=", "OMP_WAIT_POLICY=sometimes", "KMP_BLOCKTIME="}) {
        EXPECT_EQ(run_with(variable, "*WhoWaitsTakesHardlyAnyProcessorTime"), 0) << variable;
        EXPECT_EQ(run_with(variable, "*TheProgramSetsWhatTheUserDidNot"), 0) << variable;
    }
}

TEST(SleepingBarriers, AUsersOwnWaitPolicyWins) {
    EXPECT_EQ(run_with("OMP_WAIT_POLICY=active", "*DISABLED_WaitingTakesProcessorTime"), 0);
}

} // namespace
