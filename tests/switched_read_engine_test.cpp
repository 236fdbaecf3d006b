// An engine that can be another from one moment to the next: how many threads it has, and that it reads on.
#include "storage/switched_read_engine.h"

#include "support/fault_file.h"
#include "support/temp_file.h"

#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <latch>
#include <string>
#include <thread>

namespace sluice::storage {
namespace {

size_t threads_now() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Threads of this process beside the first, once there are `expected`; the system lists one for a moment
/// after it has ended.
size_t readers(size_t expected) {
    constexpr int kMostAttempts = 1000;
    for (int attempt = 0; attempt < kMostAttempts && threads_now() != 1 + expected; ++attempt) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return threads_now() - 1;
}

std::unique_ptr<SwitchedReadEngine> make_threads(int lanes) {
    std::string note;
    auto made = SwitchedReadEngine::create({.kind = ReadEngineKind::Threads, .lanes = lanes}, note);
    EXPECT_TRUE(made);
    return made ? std::move(*made) : nullptr;
}

class SwitchedReads : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists("/proc/self/task")) {
            GTEST_SKIP() << "this system does not list threads";
        }
    }
};

TEST_F(SwitchedReads, AsManyThreadsStartAsAreAskedFor) {
    for (const int lanes : {1, 3, 20}) {
        const auto engine = make_threads(lanes);
        EXPECT_EQ(readers(static_cast<size_t>(lanes)), static_cast<size_t>(lanes));
    }
    EXPECT_EQ(readers(0), 0U);
}

TEST_F(SwitchedReads, MoreStartWhenMoreAreTriedAndAreThereForTheNextTime) {
    const auto engine = make_threads(2);
    ASSERT_TRUE(engine->select({ReadEngineKind::Threads, 5}));
    EXPECT_EQ(readers(5), 5U);
    ASSERT_TRUE(engine->select({ReadEngineKind::Threads, 2}));
    EXPECT_EQ(readers(5), 5U) << "three of them sleep";
    ASSERT_TRUE(engine->select({ReadEngineKind::Threads, 4}));
    EXPECT_EQ(readers(5), 5U);
}

TEST_F(SwitchedReads, EveryRequestIsAnsweredWhileThreadsStart) {
    const test::ScratchDir dir;
    constexpr size_t kRequests = 200;
    const auto file = platform::system_files().open(dir.write("file", std::string(kRequests, 'x')), false);
    ASSERT_TRUE(file);
    std::latch left(kRequests);
    const auto engine = make_threads(1);
    std::vector<std::byte> bytes(kRequests);
    for (size_t i = 0; i < kRequests; ++i) {
        ReadRequest request{.file = file->get(),
                            .offset = i,
                            .into = std::span(bytes).subspan(i, 1),
                            .needed = 1,
                            .done = [&left](const Status &) { left.count_down(); }};
        engine->submit({&request, 1});
        ASSERT_TRUE(engine->select({ReadEngineKind::Threads, 1 + static_cast<int>(i % 12)}));
    }
    left.wait();
    EXPECT_EQ(bytes, std::vector<std::byte>(kRequests, std::byte{'x'}));
}

} // namespace
} // namespace sluice::storage
