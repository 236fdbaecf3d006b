// What opening and reading model files promises, on a real disk and with faults put in.
#include "platform/file.h"

#include "platform/reserved_memory.h"
#include "support/fault_file.h"
#include "support/temp_file.h"

#include <bit>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::platform {
namespace {

using test::first_wrong;
using test::ScratchDir;

constexpr size_t file_size = 5 * 4096 + 777; // its end lies inside a block

std::unique_ptr<IFile> must_open(const std::string &path, bool want_direct,
                                 IFileSystem &files = system_files()) {
    Result<std::unique_ptr<IFile>> file = files.open(path, want_direct);
    if (!file) {
        ADD_FAILURE() << file.error().message;
        return nullptr;
    }
    return std::move(*file);
}

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

TEST(SystemFiles, BufferedReadsTakeAnyOffsetAndLength) {
    const ScratchDir dir;
    const auto file = must_open(dir.write_pattern("model", file_size), false);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->size(), file_size);
    std::vector<std::byte> bytes(1001);
    for (const uint64_t offset : {0u, 1u, 4095u, 13333u}) {
        const Result<size_t> got = file->read_at(offset, bytes, Access::Buffered);
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_EQ(*got, bytes.size());
        EXPECT_EQ(first_wrong(bytes, offset), bytes.size()) << offset;
    }
}

TEST(SystemFiles, ReadsStopAtTheEndOfTheFile) {
    const ScratchDir dir;
    const auto file = must_open(dir.write_pattern("model", file_size), false);
    ASSERT_NE(file, nullptr);
    std::vector<std::byte> bytes(100);
    EXPECT_EQ(file->read_at(file_size - 10, bytes, Access::Buffered).value_or(999), 10u);
    EXPECT_EQ(file->read_at(file_size, bytes, Access::Buffered).value_or(999), 0u);
    EXPECT_EQ(file->read_at(file_size + 5, bytes, Access::Buffered).value_or(999), 0u);
}

TEST(SystemFiles, AMissingFileIsNotFound) {
    const ScratchDir dir;
    for (const std::string &path : {dir / "nowhere", dir.write("plain", "x") + "/below"}) {
        const auto file = system_files().open(path, true);
        ASSERT_FALSE(file);
        EXPECT_EQ(file.error().code, ErrorCode::NotFound);
        EXPECT_TRUE(contains(file.error().message, path)) << file.error().message;
    }
}

TEST(SystemFiles, AFileWeMayNotReadIsPermissionDenied) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root may read everything";
    }
    const ScratchDir dir;
    const std::string path = dir.write("secret", "x");
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    const auto file = system_files().open(path, false);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::PermissionDenied);
}

TEST(SystemFiles, DirectoriesDevicesAndPipesAreNotModels) {
    const ScratchDir dir;
    const std::string pipe = dir / "pipe"; // opening it must not wait for a writer
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    for (const std::string &path : {dir.path(), std::string("/dev/null"), pipe}) {
        const auto file = system_files().open(path, true);
        ASSERT_FALSE(file) << path;
        EXPECT_EQ(file.error().code, ErrorCode::InvalidFormat);
        EXPECT_TRUE(contains(file.error().message, path)) << file.error().message;
    }
}

TEST(SystemFiles, DirectIsNotUsedUnlessAskedFor) {
    const ScratchDir dir;
    const auto file = must_open(dir.write_pattern("model", file_size), false);
    ASSERT_NE(file, nullptr);
    EXPECT_FALSE(file->direct_trusted());
    EXPECT_EQ(file->alignment(), 1u);
    EXPECT_FALSE(file->direct_refusal().empty());
    std::vector<std::byte> bytes(512);
    const Result<size_t> got = file->read_at(0, bytes, Access::Direct);
    ASSERT_FALSE(got);
    EXPECT_TRUE(contains(got.error().message, file->path())) << got.error().message;
}

/// A patterned file opened for direct reads; tests are skipped where the file system refuses those.
class DirectFile : public ::testing::Test {
protected:
    void SetUp() override {
        file = must_open(dir.write_pattern("model", file_size), true);
        ASSERT_NE(file, nullptr);
        if (!file->direct_trusted()) {
            GTEST_SKIP() << file->direct_refusal();
        }
        memory = ReservedMemory::reserve(1 << 20, MemoryUse::Reserved).value();
    }

    ScratchDir dir;
    std::unique_ptr<IFile> file;
    ReservedMemory memory;
};

TEST_F(DirectFile, BlockIsAPowerOfTwoAndThereIsNoRefusal) {
    EXPECT_TRUE(std::has_single_bit(file->alignment()));
    EXPECT_GE(file->alignment(), 512u);
    EXPECT_EQ(file->direct_refusal(), "");
}

TEST_F(DirectFile, ReadsAnyBlockIntoAnyBlockOfMemory) {
    const size_t block = file->alignment();
    for (uint64_t offset = 0; offset + block <= file_size; offset += block) {
        const auto into = memory.bytes().subspan(offset + block, block);
        ASSERT_EQ(file->read_at(offset, into, Access::Direct).value_or(0), block);
        ASSERT_EQ(first_wrong(into, offset), block) << offset;
    }
}

TEST_F(DirectFile, ReadsTheTailShort) {
    const uint64_t tail = file_size / file->alignment() * file->alignment();
    const auto into = memory.bytes().first(file->alignment());
    EXPECT_EQ(file->read_at(tail, into, Access::Direct).value_or(0), file_size - tail);
    EXPECT_EQ(first_wrong(into.first(file_size - tail), tail), file_size - tail);
}

TEST_F(DirectFile, SmallAndEmptyFilesAreTrustedToo) {
    for (const size_t size : {0u, 1u, 511u, 512u, 4096u, 4097u}) {
        const auto small = must_open(dir.write_pattern("small", size), true);
        ASSERT_NE(small, nullptr);
        EXPECT_TRUE(small->direct_trusted()) << size << ": " << small->direct_refusal();
    }
}

TEST_F(DirectFile, ProbingLeavesNothingInThePageCache) {
    const int fd = ::open(file->path().c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    void *view = ::mmap(nullptr, file_size, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(view, MAP_FAILED);
    std::vector<unsigned char> pages((file_size + page_size() - 1) / page_size());
    const auto cached = [&] {
        EXPECT_EQ(::mincore(view, file_size, pages.data()), 0);
        return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
    };
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const auto before = cached();
    const auto again = must_open(file->path(), true);
    const auto after = cached();
    ::munmap(view, file_size);
    ::close(fd);
    if (before != 0) {
        GTEST_SKIP() << "the kernel would not drop the pages this test wrote";
    }
    EXPECT_EQ(after, 0);
}

TEST(SystemFiles, AFileSystemWithoutDirectReadsIsReported) {
    // A regular file that no kernel opens with O_DIRECT; tmpfs takes it since Linux 6.6.
    const std::string path = "/proc/version";
    if (::access(path.c_str(), R_OK) != 0) {
        GTEST_SKIP() << "no " << path << " here";
    }
    const auto file = must_open(path, true);
    ASSERT_NE(file, nullptr);
    EXPECT_FALSE(file->direct_trusted());
    EXPECT_EQ(file->alignment(), 1u);
    EXPECT_TRUE(contains(file->direct_refusal(), path)) << file->direct_refusal();

    std::vector<std::byte> direct(5);
    std::vector<std::byte> buffered(5);
    bool fell_back = false;
    ASSERT_TRUE(read_fully(*file, 0, direct, direct.size(), Access::Direct, &fell_back));
    EXPECT_TRUE(fell_back);
    ASSERT_TRUE(read_fully(*file, 0, buffered, buffered.size(), Access::Buffered, &fell_back));
    EXPECT_FALSE(fell_back);
    EXPECT_EQ(direct, buffered);
}

TEST(SystemFiles, MemoryFileSystemsAreReadRightWhateverTheySay) {
    if (::access("/dev/shm", W_OK) != 0) {
        GTEST_SKIP() << "no /dev/shm here";
    }
    const ScratchDir dir("/dev/shm");
    const auto file = must_open(dir.write_pattern("model", file_size), true);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->direct_trusted(), file->direct_refusal().empty());
    EXPECT_EQ(file->direct_trusted(), file->alignment() > 1);
    const auto memory = ReservedMemory::reserve(8192, MemoryUse::Reserved).value();
    bool fell_back = false;
    ASSERT_TRUE(read_fully(*file, 4096, memory.bytes().first(8192), 8192, Access::Direct, &fell_back));
    EXPECT_EQ(fell_back, !file->direct_trusted());
    EXPECT_EQ(first_wrong(memory.bytes().first(8192), 4096), 8192u);
}

/// Whole reads of a patterned file through a plan of faults.
class ReadFully : public ::testing::Test {
protected:
    void SetUp() override {
        file = must_open(dir.write_pattern("model", file_size), true, files);
        ASSERT_NE(file, nullptr);
        memory = ReservedMemory::reserve(1 << 20, MemoryUse::Reserved).value();
    }

    Status read(uint64_t offset, size_t length, size_t needed, Access access) {
        return read_fully(*file, offset, memory.bytes().first(length), needed, access, &fell_back);
    }
    void expect_bytes(uint64_t offset, size_t length) {
        EXPECT_EQ(first_wrong(memory.bytes().first(length), offset), length);
    }

    ScratchDir dir;
    std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
    FaultFileSystem files{plan};
    std::unique_ptr<IFile> file;
    ReservedMemory memory;
    bool fell_back = false;
};

#define SKIP_UNLESS_DIRECT()                                                                                 \
    if (!file->direct_trusted()) {                                                                           \
        GTEST_SKIP() << file->direct_refusal();                                                              \
    }

TEST_F(ReadFully, OneReadIsEnoughWhenAllGoesWell) {
    ASSERT_TRUE(read(3, 8000, 8000, Access::Buffered));
    EXPECT_FALSE(fell_back);
    expect_bytes(3, 8000);
    EXPECT_EQ(plan->counts().reads, 1u);
}

TEST_F(ReadFully, NeedingNothingReadsNothing) {
    ASSERT_TRUE(read(0, 4096, 0, Access::Direct));
    EXPECT_FALSE(fell_back);
    EXPECT_EQ(plan->counts().reads, 0u);
}

TEST_F(ReadFully, NeedingMoreThanFitsIsRefused) {
    const Status status = read(0, 100, 101, Access::Buffered);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST_F(ReadFully, FellBackMayBeNull) {
    EXPECT_TRUE(read_fully(*file, 0, memory.bytes().first(10), 10, Access::Buffered, nullptr));
}

TEST_F(ReadFully, ShortBufferedReadsAreContinued) {
    plan->add({.nth = 1, .short_by = 4000});
    plan->add({.nth = 2, .short_by = 1});
    ASSERT_TRUE(read(5, 4096, 4096, Access::Buffered));
    expect_bytes(5, 4096);
}

TEST_F(ReadFully, AnInterruptedBufferedReadIsTriedAgain) {
    plan->add({.nth = 1, .no_progress = true});
    ASSERT_TRUE(read(0, 4096, 4096, Access::Buffered));
    expect_bytes(0, 4096);
}

TEST_F(ReadFully, AFailedBufferedReadNamesPathOffsetAndReason) {
    plan->add({.nth = 2, .error_number = EIO});
    plan->add({.nth = 1, .short_by = 96});
    const Status status = read(4096, 4096, 4096, Access::Buffered);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Io);
    EXPECT_TRUE(contains(status.error().message, file->path())) << status.error().message;
    EXPECT_TRUE(contains(status.error().message, "8096")) << status.error().message;
    EXPECT_TRUE(contains(status.error().message, "Input/output error")) << status.error().message;
}

TEST_F(ReadFully, AFileThatEndsTooSoonIsInvalid) {
    const Status status = read(file_size - 100, 101, 101, Access::Buffered);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidFormat);
    EXPECT_TRUE(contains(status.error().message, file->path())) << status.error().message;
    EXPECT_TRUE(contains(status.error().message, std::to_string(file_size))) << status.error().message;
}

TEST_F(ReadFully, AFileCutWhileOpenIsInvalidInEitherAccess) {
    ASSERT_EQ(::truncate(file->path().c_str(), 4096), 0);
    for (const Access access : {Access::Buffered, Access::Direct}) {
        const Status status = read(0, 8192, 8192, access);
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code, ErrorCode::InvalidFormat);
    }
}

TEST_F(ReadFully, AWholeDirectReadIsNotAFallback) {
    SKIP_UNLESS_DIRECT();
    ASSERT_TRUE(read(4096, 8192, 8192, Access::Direct));
    EXPECT_FALSE(fell_back);
    expect_bytes(4096, 8192);
    EXPECT_EQ(plan->counts().direct_reads, 1u);
}

TEST_F(ReadFully, ADirectReadMayReachPastTheEndOfTheFile) {
    SKIP_UNLESS_DIRECT();
    ASSERT_TRUE(read(4096, 20480, file_size - 4096, Access::Direct));
    EXPECT_FALSE(fell_back);
    expect_bytes(4096, file_size - 4096);
}

TEST_F(ReadFully, ShortDirectReadIsFinishedBuffered) {
    SKIP_UNLESS_DIRECT();
    plan->add({.nth = 1, .only = Access::Direct, .short_by = 100});
    ASSERT_TRUE(read(0, 8192, 8192, Access::Direct));
    EXPECT_TRUE(fell_back);
    expect_bytes(0, 8192);
    EXPECT_EQ(plan->counts().bytes, 8192u) << "only the missing bytes are read again";
}

TEST_F(ReadFully, ADirectReadShortByWholeBlocksGoesOnDirect) {
    SKIP_UNLESS_DIRECT();
    plan->add({.nth = 1, .only = Access::Direct, .short_by = 4096});
    ASSERT_TRUE(read(0, 12288, 12288, Access::Direct));
    EXPECT_FALSE(fell_back);
    expect_bytes(0, 12288);
    EXPECT_EQ(plan->counts().direct_reads, 2u);
}

TEST_F(ReadFully, AFailedDirectReadIsRepeatedBuffered) {
    for (const int number : {EINVAL, EIO, EAGAIN}) {
        plan->clear();
        plan->add({.nth = 1, .only = Access::Direct, .error_number = number});
        ASSERT_TRUE(read(0, 8192, 8192, Access::Direct));
        EXPECT_TRUE(fell_back);
        expect_bytes(0, 8192);
        memory.discard(0, 8192);
    }
}

TEST_F(ReadFully, ADirectReadWithoutProgressIsRepeatedBuffered) {
    plan->add({.nth = 1, .and_after = true, .only = Access::Direct, .no_progress = true});
    ASSERT_TRUE(read(0, 8192, 8192, Access::Direct));
    EXPECT_TRUE(fell_back);
    expect_bytes(0, 8192);
}

TEST_F(ReadFully, AMisalignedDirectReadStillBringsTheBytes) {
    ASSERT_TRUE(read(1, 8191, 8191, Access::Direct));
    expect_bytes(1, 8191);
}

TEST_F(ReadFully, WhenBothWaysFailTheBufferedErrorIsReported) {
    plan->add({.and_after = true, .only = Access::Direct, .error_number = EINVAL});
    plan->add({.and_after = true, .only = Access::Buffered, .error_number = EIO});
    const Status status = read(4096, 4096, 4096, Access::Direct);
    ASSERT_FALSE(status);
    EXPECT_TRUE(fell_back);
    EXPECT_EQ(status.error().code, ErrorCode::Io);
    EXPECT_TRUE(contains(status.error().message, "Input/output error")) << status.error().message;
}

TEST(FaultPlan, CountsMatchingReadsOnlyAndStrikesTheNth) {
    const ScratchDir dir;
    const auto plan = std::make_shared<FaultPlan>();
    FaultFileSystem files{plan};
    const auto a = must_open(dir.write_pattern("a", file_size), false, files);
    const auto b = must_open(dir.write_pattern("b", file_size), false, files);
    ASSERT_TRUE(a != nullptr && b != nullptr);
    plan->add({.nth = 2, .from_offset = 1000, .error_number = EIO});
    plan->add({.nth = 1, .and_after = true, .path_contains = "/b", .short_by = 3});
    std::vector<std::byte> bytes(10);
    const auto read = [&](IFile &file, uint64_t offset) {
        return file.read_at(offset, bytes, Access::Buffered).value_or(999);
    };
    EXPECT_EQ(read(*a, 0), 10u);
    EXPECT_EQ(read(*a, 2000), 10u);
    EXPECT_EQ(read(*b, 0), 7u);
    EXPECT_NE(bytes[7], test::pattern(7)) << "undelivered bytes are rubbish";
    EXPECT_EQ(read(*b, 1000), 999u);
    EXPECT_EQ(read(*b, 1000), 7u);
    const FaultPlan::Counts counts = plan->counts();
    EXPECT_EQ(counts.reads, 5u);
    EXPECT_EQ(counts.bytes, 34u);
    EXPECT_EQ(counts.struck, 3u);
    EXPECT_EQ(counts.opened, 2u);
}

} // namespace
} // namespace sluice::platform
