// What every background reader promises: each request answered once, in order, and nothing lost at the end.
#include "storage/read_engine.h"

#include "platform/reserved_memory.h"
#include "support/fault_file.h"
#include "support/temp_file.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <latch>
#include <mutex>
#include <thread>

namespace sluice::storage {
namespace {

using test::first_wrong;
using test::ScratchDir;

/// A file without bytes of its own that calls `on_read` with each offset and fills in the pattern.
class CallbackFile final : public platform::IFile {
public:
    explicit CallbackFile(std::function<void(uint64_t)> on_read) : on_read_(std::move(on_read)) {}

    Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, platform::Access) override {
        on_read_(offset);
        for (size_t i = 0; i < into.size(); ++i) {
            into[i] = test::pattern(offset + i);
        }
        return into.size();
    }
    Status map_over(uint64_t, std::span<std::byte>, platform::MapAdvice) override {
        return fail(ErrorCode::Unsupported, "there is no file to map");
    }
    [[nodiscard]] uint64_t size() const override { return UINT64_MAX; }
    [[nodiscard]] size_t alignment() const override { return 1; }
    [[nodiscard]] bool direct_trusted() const override { return false; }
    [[nodiscard]] const std::string &direct_refusal() const override { return name_; }
    [[nodiscard]] const std::string &path() const override { return name_; }

private:
    std::function<void(uint64_t)> on_read_;
    std::string name_ = "made up";
};

/// All of this holds for both engines, with files that have descriptors and with those that don't.
class ReadEngine : public testing::TestWithParam<ReadEngineKind> {
protected:
    void SetUp() override {
        if (const auto engine = make_engine(1); !engine && engine.error().code == ErrorCode::Unsupported) {
            GTEST_SKIP() << engine.error().message;
        }
    }

    static Result<std::unique_ptr<IReadEngine>> make_engine(int lanes) {
        return GetParam() == ReadEngineKind::Uring ? make_uring_read_engine(lanes)
                                                   : make_thread_read_engine(lanes);
    }

    static std::unique_ptr<IReadEngine> engine_of(int lanes) {
        Result<std::unique_ptr<IReadEngine>> engine = make_engine(lanes);
        EXPECT_TRUE(engine) << engine.error().message;
        return engine ? std::move(*engine) : nullptr;
    }
};

INSTANTIATE_TEST_SUITE_P(, ReadEngine, testing::Values(ReadEngineKind::Threads, ReadEngineKind::Uring),
                         [](const auto &kind) {
                             return kind.param == ReadEngineKind::Uring ? "Uring" : "Threads";
                         });

void submit_one(IReadEngine &engine, ReadRequest request) {
    engine.submit({&request, 1});
}

TEST_P(ReadEngine, SizeIsLimited) {
    const int most = GetParam() == ReadEngineKind::Uring ? 1024 : 64;
    for (const int lanes : {-1, 0, most + 1}) {
        const auto engine = make_engine(lanes);
        ASSERT_FALSE(engine);
        EXPECT_EQ(engine.error().code, ErrorCode::InvalidArgument);
    }
    EXPECT_TRUE(make_engine(1));
    EXPECT_TRUE(make_engine(most));
}

TEST_P(ReadEngine, EveryRequestIsAnsweredOnceWithItsBytes) {
    constexpr size_t count = 500;
    constexpr size_t length = 700;
    const ScratchDir dir;
    const auto file = platform::system_files().open(dir.write_pattern("model", count * 512), false).value();
    std::vector<std::byte> memory(count * length);
    std::vector<std::atomic<int>> answers(count);
    std::latch finished(count);
    const auto engine = engine_of(4);
    {
        std::vector<ReadRequest> requests;
        for (size_t i = 0; i < count; ++i) {
            const size_t needed = std::min(length, (count - i) * 512);
            requests.push_back({.file = file.get(),
                                .offset = i * 512,
                                .into = std::span(memory).subspan(i * length, length),
                                .needed = needed,
                                .access = platform::Access::Buffered,
                                .done = [&, i](Status status) {
                                    EXPECT_TRUE(status) << status.error().message;
                                    ++answers[i];
                                    finished.count_down();
                                }});
        }
        engine->submit(requests);
    } // the engine keeps copies
    finished.wait();
    for (size_t i = 0; i < count; ++i) {
        const size_t needed = std::min(length, (count - i) * 512);
        ASSERT_EQ(answers[i], 1);
        ASSERT_EQ(first_wrong(std::span(memory).subspan(i * length, needed), i * 512), needed) << i;
    }
    EXPECT_EQ(engine->counters().reads, count);
}

TEST_P(ReadEngine, SubmitDoesNotWaitForReads) {
    std::promise<void> gate;
    const std::shared_future<void> opened = gate.get_future().share();
    CallbackFile file([&](uint64_t) { opened.wait(); });
    std::atomic<int> answers{0};
    std::vector<std::byte> memory(16);
    auto engine = engine_of(1);
    for (int i = 0; i < 10; ++i) {
        submit_one(*engine,
                   {.file = &file, .into = memory, .needed = 16, .done = [&](const Status &) { ++answers; }});
    }
    EXPECT_EQ(answers, 0); // we got here although no read can have ended
    gate.set_value();
    engine.reset();
    EXPECT_EQ(answers, 10);
}

TEST_P(ReadEngine, OneLaneKeepsTheOrderOfSubmission) {
    std::vector<uint64_t> order; // touched by the one lane only, read after it ended
    CallbackFile file([&](uint64_t offset) { order.push_back(offset); });
    std::vector<std::byte> memory(1);
    auto engine = engine_of(1);
    std::vector<uint64_t> expected;
    for (uint64_t batch = 0; batch < 10; ++batch) {
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < 5; ++i) {
            expected.push_back(batch * 5 + i);
            requests.push_back({.file = &file, .offset = expected.back(), .into = memory, .needed = 1});
        }
        engine->submit(requests);
    }
    engine.reset();
    EXPECT_EQ(order, expected);
}

TEST_P(ReadEngine, AsManyReadsAsLanesAreInFlightTogether) {
    constexpr int lanes = 3;
    std::latch together(lanes); // opens only when all three reads are inside
    CallbackFile file([&](uint64_t) { together.arrive_and_wait(); });
    std::vector<std::byte> memory(lanes);
    std::atomic<int> answers{0};
    auto engine = engine_of(lanes);
    for (size_t i = 0; i < lanes; ++i) {
        submit_one(*engine, {.file = &file,
                             .into = std::span(memory).subspan(i, 1),
                             .needed = 1,
                             .done = [&](const Status &) { ++answers; }});
    }
    engine.reset();
    EXPECT_EQ(answers, lanes);
}

TEST_P(ReadEngine, DestructionWaitsForAllThatWasSubmitted) {
    std::atomic<int> answers{0};
    CallbackFile file([](uint64_t) { std::this_thread::yield(); });
    std::vector<std::byte> memory(1);
    {
        const auto engine = engine_of(1);
        const std::vector<ReadRequest> pattern(
            200, ReadRequest{
                     .file = &file, .into = memory, .needed = 1, .done = [&](const Status &) { ++answers; }});
        std::vector<ReadRequest> requests = pattern;
        engine->submit(requests);
    }
    EXPECT_EQ(answers, 200);
}

TEST_P(ReadEngine, ACallbackMaySubmitMore) {
    CallbackFile file([](uint64_t) {});
    std::vector<std::byte> memory(1);
    std::atomic<int> answers{0};
    auto engine = engine_of(2);
    IReadEngine &reader = *engine; // valid until the destructor returns, unlike what the pointer holds then
    std::function<void(Status)> next = [&](const Status &) {
        if (++answers < 20) {
            submit_one(reader, {.file = &file, .into = memory, .needed = 1, .done = next});
        }
    };
    submit_one(reader, {.file = &file, .into = memory, .needed = 1, .done = next});
    engine.reset();
    EXPECT_EQ(answers, 20);
}

TEST_P(ReadEngine, ManyThreadsMaySubmitAtOnce) {
    CallbackFile file([](uint64_t) {});
    std::atomic<int> answers{0};
    std::vector<std::byte> memory(4);
    auto engine = engine_of(3);
    {
        std::vector<std::jthread> callers;
        for (size_t caller = 0; caller < 4; ++caller) {
            callers.emplace_back([&, caller] {
                for (int i = 0; i < 100; ++i) {
                    // No bytes: many reads of one place at once would race in the memory, not the engine.
                    submit_one(*engine, {.file = &file,
                                         .into = std::span(memory).subspan(caller, 1),
                                         .needed = 0,
                                         .done = [&](const Status &) { ++answers; }});
                    static_cast<void>(engine->counters());
                }
            });
        }
    }
    engine.reset();
    EXPECT_EQ(answers, 400);
}

TEST_P(ReadEngine, AFailedReadReachesItsCallbackAndOthersGoOn) {
    const ScratchDir dir;
    const auto plan = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files{plan};
    const auto file = files.open(dir.write_pattern("model", 8192), false).value();
    plan->add({.nth = 2, .error_number = EIO});
    std::vector<std::byte> memory(size_t{3} * 64);
    std::vector<Status> results(3);
    auto engine = engine_of(1);
    std::latch finished(3);
    for (size_t i = 0; i < 3; ++i) {
        submit_one(*engine, {.file = file.get(),
                             .offset = i * 64,
                             .into = std::span(memory).subspan(i * 64, 64),
                             .needed = 64,
                             .done = [&, i](Status status) {
                                 results[i] = std::move(status);
                                 finished.count_down();
                             }});
    }
    finished.wait();
    EXPECT_TRUE(results[0]);
    ASSERT_FALSE(results[1]);
    EXPECT_EQ(results[1].error().code, ErrorCode::Io);
    EXPECT_NE(results[1].error().message.find(file->path()), std::string::npos);
    EXPECT_TRUE(results[2]);
    const ReadCounters counters = engine->counters();
    EXPECT_EQ(counters.reads, 3u);
    EXPECT_EQ(counters.errors, 1u);
    EXPECT_EQ(counters.bytes, 128u);
}

TEST_P(ReadEngine, ARequestWithoutAFileFails) {
    auto engine = engine_of(1);
    std::promise<Status> result;
    submit_one(*engine, {.done = [&](Status status) { result.set_value(std::move(status)); }});
    const Status status = result.get_future().get();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST_P(ReadEngine, DirectReadsCountTheirPaddingAndFallbacks) {
    const ScratchDir dir;
    const auto plan = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files{plan};
    const auto file = files.open(dir.write_pattern("model", 10000), true).value();
    if (!file->direct_trusted()) {
        GTEST_SKIP() << file->direct_refusal();
    }
    const platform::ReservedMemory memory =
        platform::ReservedMemory::reserve(12288, platform::MemoryUse::Reserved).value();
    plan->add({.nth = 2, .only = platform::Access::Direct, .error_number = EINVAL});
    auto engine = engine_of(1);
    std::latch finished(2);
    for (int i = 0; i < 2; ++i) {
        submit_one(*engine, {.file = file.get(),
                             .into = memory.bytes(),
                             .needed = 10000,
                             .access = platform::Access::Direct,
                             .done = [&](const Status &status) {
                                 EXPECT_TRUE(status);
                                 EXPECT_EQ(first_wrong(memory.bytes().first(10000), 0), 10000u);
                                 finished.count_down();
                             }});
    }
    finished.wait();
    const ReadCounters counters = engine->counters();
    EXPECT_EQ(counters.fallbacks, 1u);
    EXPECT_EQ(counters.errors, 0u);
    EXPECT_EQ(counters.bytes, 20000u);
    EXPECT_EQ(counters.device_bytes, 24576u);
}

TEST_P(ReadEngine, BusyTimeStandsStillWhileIdle) {
    CallbackFile file([](uint64_t) {});
    std::vector<std::byte> memory(1 << 16);
    const auto engine = engine_of(2);
    EXPECT_EQ(engine->counters().busy_nanoseconds, 0u);
    std::promise<void> finished;
    submit_one(*engine, {.file = &file, .into = memory, .needed = memory.size(), .done = [&](const Status &) {
                             finished.set_value();
                         }});
    finished.get_future().wait();
    const uint64_t once = engine->counters().busy_nanoseconds;
    EXPECT_GT(once, 0u);
    EXPECT_EQ(engine->counters().busy_nanoseconds, once);
}

TEST_P(ReadEngine, ReaderThreadsLeaveSignalsToTheOthers) {
    const auto engine = engine_of(1);
    CallbackFile file([](uint64_t) {});
    std::vector<std::byte> memory(1);
    std::promise<sigset_t> reader;
    submit_one(*engine, {.file = &file, .into = memory, .needed = 1, .done = [&](const Status &) {
                             sigset_t mask;
                             pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                             reader.set_value(mask);
                         }});
    const sigset_t theirs = reader.get_future().get();
    EXPECT_EQ(sigismember(&theirs, SIGINT), 1);
    EXPECT_EQ(sigismember(&theirs, SIGTERM), 1);
    EXPECT_EQ(sigismember(&theirs, SIGSEGV), 0);
    sigset_t ours;
    pthread_sigmask(SIG_SETMASK, nullptr, &ours);
    EXPECT_EQ(sigismember(&ours, SIGINT), 0) << "the caller's own mask is put back";
}

} // namespace
} // namespace sluice::storage
