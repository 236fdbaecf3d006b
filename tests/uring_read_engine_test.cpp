// io_uring in particular: more requests than fit, files it cannot read, kernels that refuse it.
#include "storage/read_engine.h"

#include "platform/reserved_memory.h"
#include "support/syscall_filter.h"
#include "support/temp_file.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <latch>
#include <numeric>
#include <sys/syscall.h>
#include <thread>

namespace sluice::storage {
namespace {

using test::deny_syscall;
using test::first_wrong;
using test::ScratchDir;

constexpr size_t block = 4096;

/// A file that reads one path but gives the descriptor of another.
class TwoFacedFile final : public platform::IFile {
public:
    TwoFacedFile(std::unique_ptr<platform::IFile> truth, const std::string &face, int flags)
        : truth_(std::move(truth)), face_(::open(face.c_str(), flags | O_CLOEXEC)) {}
    ~TwoFacedFile() override { ::close(face_); }
    TwoFacedFile(const TwoFacedFile &) = delete;
    TwoFacedFile &operator=(const TwoFacedFile &) = delete;

    Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, platform::Access access) override {
        ++reads_;
        first_offset_ = reads_ == 1 ? offset : first_offset_.load();
        return truth_->read_at(offset, into, access);
    }
    Status map_over(uint64_t offset, std::span<std::byte> where, platform::MapAdvice advice) override {
        return truth_->map_over(offset, where, advice);
    }
    [[nodiscard]] uint64_t size() const override { return truth_->size(); }
    [[nodiscard]] size_t alignment() const override { return truth_->alignment(); }
    [[nodiscard]] bool direct_trusted() const override { return truth_->direct_trusted(); }
    [[nodiscard]] const std::string &direct_refusal() const override { return truth_->direct_refusal(); }
    [[nodiscard]] const std::string &path() const override { return truth_->path(); }
    [[nodiscard]] std::optional<int> descriptor(platform::Access) const override { return face_; }

    [[nodiscard]] int reads() const { return reads_; }
    [[nodiscard]] uint64_t first_offset() const { return first_offset_; }

private:
    std::unique_ptr<platform::IFile> truth_;
    int face_;
    std::atomic<int> reads_{0}; ///< by read_at()
    std::atomic<uint64_t> first_offset_{0};
};

class UringReadEngine : public testing::Test {
protected:
    void SetUp() override {
        if (const auto engine = make_uring_read_engine(1); !engine) {
            GTEST_SKIP() << engine.error().message;
        }
    }

    std::unique_ptr<platform::IFile> pattern_file(size_t size, bool want_direct = false) {
        return platform::system_files().open(dir_.write_pattern("model", size), want_direct).value();
    }

    ScratchDir dir_;
};

/// Reads `needed` bytes at `offset` into `into` and waits for the answer.
Status read_once(IReadEngine &engine, platform::IFile &file, uint64_t offset, std::span<std::byte> into,
                 size_t needed, platform::Access access = platform::Access::Buffered) {
    std::latch finished(1);
    Status result;
    ReadRequest request = {.file = &file,
                           .offset = offset,
                           .into = into,
                           .needed = needed,
                           .access = access,
                           .done = [&](Status status) {
                               result = std::move(status);
                               finished.count_down();
                           }};
    engine.submit({&request, 1});
    finished.wait();
    return result;
}

TEST_F(UringReadEngine, ManyMoreRequestsThanItsDepthAreAllAnswered) {
    constexpr size_t count = 300;
    const auto file = pattern_file(count * block);
    for (const int depth : {1, 2, 7, 1024}) {
        std::vector<std::byte> memory(count * block);
        std::latch finished(count);
        auto engine = make_uring_read_engine(depth).value();
        std::vector<ReadRequest> requests;
        for (size_t i = 0; i < count; ++i) {
            requests.push_back({.file = file.get(),
                                .offset = i * block,
                                .into = std::span(memory).subspan(i * block, block),
                                .needed = block,
                                .done = [&](const Status &status) {
                                    EXPECT_TRUE(status) << status.error().message;
                                    finished.count_down();
                                }});
        }
        engine->submit(std::span(requests).first(200));
        engine->submit(std::span(requests).last(100));
        finished.wait();
        EXPECT_EQ(first_wrong(memory, 0), memory.size()) << "depth " << depth;
        EXPECT_EQ(engine->counters().reads, count);
        EXPECT_EQ(engine->counters().bytes, count * block);
    }
}

TEST_F(UringReadEngine, DirectReadsMayReachBeyondTheEnd) {
    const auto file = pattern_file(10000, true);
    if (!file->direct_trusted()) {
        GTEST_SKIP() << file->direct_refusal();
    }
    const platform::ReservedMemory memory =
        platform::ReservedMemory::reserve(3 * block, platform::MemoryUse::Reserved).value();
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, *file, 0, memory.bytes(), 10000, platform::Access::Direct));
    EXPECT_EQ(first_wrong(memory.bytes().first(10000), 0), 10000u);
    EXPECT_EQ(engine->counters().fallbacks, 0u);
    EXPECT_EQ(engine->counters().device_bytes, 3 * block);
}

TEST_F(UringReadEngine, MisalignedDirectReadsAreFinishedBuffered) {
    const auto file = pattern_file(10000, true);
    if (!file->direct_trusted()) {
        GTEST_SKIP() << file->direct_refusal();
    }
    std::vector<std::byte> memory(1001);
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, *file, 77, std::span(memory).subspan(1), 1000, platform::Access::Direct));
    EXPECT_EQ(first_wrong(std::span(memory).subspan(1), 77), 1000u);
    EXPECT_EQ(engine->counters().fallbacks, 1u);
    EXPECT_EQ(engine->counters().errors, 0u);
}

TEST_F(UringReadEngine, DirectReadsOfAFileWithoutThemAreFallbacks) {
    const auto file = pattern_file(10000, false);
    std::vector<std::byte> memory(1000);
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, *file, 5, memory, 1000, platform::Access::Direct));
    EXPECT_EQ(first_wrong(memory, 5), 1000u);
    EXPECT_EQ(engine->counters().fallbacks, 1u);
}

TEST_F(UringReadEngine, ShortReadsGoOnWhereTheyStopped) {
    TwoFacedFile file(pattern_file(10000), dir_.write_pattern("shorter", 6000), O_RDONLY);
    std::vector<std::byte> memory(9000);
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, file, 1000, memory, memory.size()));
    EXPECT_EQ(first_wrong(memory, 1000), memory.size());
    EXPECT_EQ(file.first_offset(), 6000u);
    const ReadCounters counters = engine->counters();
    EXPECT_EQ(counters.reads, 1u);
    EXPECT_EQ(counters.bytes, 9000u);
    EXPECT_EQ(counters.fallbacks, 0u);
}

TEST_F(UringReadEngine, DirectReadsThatStopInsideABlockAreFinishedBuffered) {
    const std::string shorter = dir_.write_pattern("shorter", 6000);
    auto truth = pattern_file(12288, true);
    if (!truth->direct_trusted()) {
        GTEST_SKIP() << truth->direct_refusal();
    }
    TwoFacedFile file(std::move(truth), shorter, O_RDONLY);
    const platform::ReservedMemory memory =
        platform::ReservedMemory::reserve(3 * block, platform::MemoryUse::Reserved).value();
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, file, 0, memory.bytes(), 12288, platform::Access::Direct));
    EXPECT_EQ(first_wrong(memory.bytes(), 0), 12288u);
    EXPECT_EQ(file.first_offset(), 6000u);
    EXPECT_EQ(engine->counters().fallbacks, 1u);
}

TEST_F(UringReadEngine, WhatTheRingCannotReadIsReadThroughTheFile) {
    TwoFacedFile file(pattern_file(10000), dir_.path(), O_RDONLY | O_DIRECTORY); // EISDIR
    std::vector<std::byte> memory(1000);
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, file, 7, memory, memory.size()));
    EXPECT_EQ(first_wrong(memory, 7), memory.size());
    EXPECT_EQ(file.reads(), 1);
    EXPECT_EQ(engine->counters().errors, 0u);
}

TEST_F(UringReadEngine, FileCutShortIsAnErrorThatSaysSo) {
    const auto file = pattern_file(10000);
    std::filesystem::resize_file(file->path(), 5000);
    std::vector<std::byte> memory(1000);
    auto engine = make_uring_read_engine(4).value();
    EXPECT_TRUE(read_once(*engine, *file, 4000, memory, memory.size()));
    const Status cut = read_once(*engine, *file, 4500, memory, memory.size());
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, ErrorCode::InvalidFormat);
    EXPECT_NE(cut.error().message.find(file->path()), std::string::npos);
    EXPECT_EQ(engine->counters().errors, 1u);
}

TEST_F(UringReadEngine, RequestThatDoesNotFitItsMemoryFails) {
    const auto file = pattern_file(10000);
    std::vector<std::byte> memory(10);
    auto engine = make_uring_read_engine(4).value();
    const Status status = read_once(*engine, *file, 0, memory, 11);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST_F(UringReadEngine, ThreadsMayEndBeforeTheirReadsDo) {
    // The kernel cancels what a thread that ends has submitted, if it did not begin yet.
    constexpr size_t each = 64;
    const auto file = pattern_file(each * block);
    std::atomic<int> answers{0};
    std::vector<std::byte> memory(8 * each * block);
    auto engine = make_uring_read_engine(256).value();
    for (size_t caller = 0; caller < 8; ++caller) {
        std::thread([&, caller] {
            std::vector<ReadRequest> requests;
            for (size_t i = 0; i < each; ++i) {
                requests.push_back({.file = file.get(),
                                    .offset = i * block,
                                    .into = std::span(memory).subspan((caller * each + i) * block, block),
                                    .needed = block,
                                    .done = [&](const Status &status) { answers += status ? 1 : 0; }});
            }
            engine->submit(requests);
        }).join();
    }
    engine.reset();
    EXPECT_EQ(answers, 8 * each);
    for (size_t caller = 0; caller < 8; ++caller) {
        const size_t bytes = each * block;
        EXPECT_EQ(first_wrong(std::span(memory).subspan(caller * bytes, bytes), 0), bytes);
    }
}

// -- refusal: in child processes, since a filter of system calls is for life
// -----------------------------------------------------------------------------

/// Ends the child with 0 if `holds`.
[[noreturn]] void end_child(bool holds, const std::string &seen) {
    std::fprintf(stderr, "%s\n", seen.c_str());
    std::_Exit(holds ? 0 : 1);
}

TEST(UringRefusal, KernelThatRefusesIsUnsupportedAndSaysWhy) {
    for (const int number : {ENOSYS, EPERM}) {
        EXPECT_EXIT(
            {
                deny_syscall(SYS_io_uring_setup, number);
                const auto engine = make_uring_read_engine(8);
                end_child(!engine && engine.error().code == ErrorCode::Unsupported,
                          engine ? "made all the same" : engine.error().message);
            },
            testing::ExitedWithCode(0), "io_uring");
    }
}

TEST(UringRefusal, SetupThatWorksIsNotEnough) {
    EXPECT_EXIT(
        {
            deny_syscall(SYS_io_uring_enter, EPERM);
            const auto engine = make_uring_read_engine(8);
            end_child(!engine && engine.error().code == ErrorCode::Unsupported,
                      engine ? "made all the same" : engine.error().message);
        },
        testing::ExitedWithCode(0), "io_uring");
}

TEST(UringRefusal, FrontFallsBackToThreadsAndSaysSoOnlyWhenUringWasAskedFor) {
    EXPECT_EXIT(
        {
            deny_syscall(SYS_io_uring_setup, EPERM);
            const auto any = make_read_engine({.kind = ReadEngineKind::Auto, .lanes = 3});
            const auto asked = make_read_engine({.kind = ReadEngineKind::Uring, .lanes = 3});
            end_child(any && any->kind == ReadEngineKind::Threads && any->name == "3 reader threads" &&
                          any->note.empty() && asked && asked->kind == ReadEngineKind::Threads,
                      asked ? asked->note : asked.error().message);
        },
        testing::ExitedWithCode(0), "threads read instead of io_uring: io_uring cannot be");
}

TEST_F(UringReadEngine, RefusalLaterOnLosesNoRequest) {
    const auto file = pattern_file(100 * block);
    EXPECT_EXIT(
        {
            std::atomic<int> good{0};
            std::vector<std::byte> memory(100 * block);
            auto engine = make_uring_read_engine(8).value();
            std::vector<ReadRequest> requests;
            for (size_t i = 0; i < 100; ++i) {
                requests.push_back({.file = file.get(),
                                    .offset = i * block,
                                    .into = std::span(memory).subspan(i * block, block),
                                    .needed = block,
                                    .done = [&](const Status &status) { good += status ? 1 : 0; }});
            }
            engine->submit(requests);
            deny_syscall(SYS_io_uring_enter, EPERM);
            engine->submit(requests);
            engine->submit(requests);
            engine.reset();
            end_child(good == 300 && first_wrong(memory, 0) == memory.size(),
                      "good: " + std::to_string(good));
        },
        testing::ExitedWithCode(0), "good: 300");
}

TEST(ReadEngineChoice, GivesWhatWasAskedForOrRefusesItsSize) {
    const auto threads = make_read_engine({.kind = ReadEngineKind::Threads, .lanes = 1});
    ASSERT_TRUE(threads);
    EXPECT_EQ(threads->name, "1 reader thread");
    EXPECT_EQ(threads->note, "");
    EXPECT_FALSE(make_read_engine({.kind = ReadEngineKind::Threads, .lanes = 0}));
    if (make_uring_read_engine(1)) {
        const auto any = make_read_engine({.kind = ReadEngineKind::Auto, .depth = 32});
        ASSERT_TRUE(any);
        EXPECT_EQ(any->kind, ReadEngineKind::Uring);
        EXPECT_EQ(any->name, "io_uring, 32 reads in flight");
        EXPECT_FALSE(make_read_engine({.kind = ReadEngineKind::Auto, .depth = 1025}));
    }
}

} // namespace
} // namespace sluice::storage
