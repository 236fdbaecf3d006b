// Files through POSIX calls: one descriptor for buffered reads and, where trusted, one for direct reads.
#include "platform/file.h"
#include "platform/posix_calls.h"
#include "platform/reserved_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sluice::platform {
namespace {

static_assert(sizeof(off_t) == 8, "models are larger than 2 GiB");

constexpr size_t smallest_block = 512;
constexpr size_t usual_block = 4096;
constexpr size_t largest_block = size_t{64} << 10;

/// One read call moves no more than this: Linux stops below 2 GiB at an odd count, macOS refuses more.
constexpr size_t largest_read = size_t{1} << 30;

Descriptor open_retrying(const std::string &path, int flags) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return Descriptor(fd);
}

/// Expert slices and row slabs lie scattered: read-ahead would only fetch bytes nobody asked for.
void advise_random([[maybe_unused]] int fd) {
#ifdef __APPLE__
    ::fcntl(fd, F_RDAHEAD, 0);
#else
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
}

/// Drops the pages of [offset, offset+length) from the page cache.
void forget_cached([[maybe_unused]] int fd, [[maybe_unused]] uint64_t offset,
                   [[maybe_unused]] size_t length) {
#ifndef __APPLE__
    // The kernel keeps pages that are covered only in part.
    const uint64_t page = page_size();
    const uint64_t begin = offset / page * page;
    const uint64_t end = (offset + length + page - 1) / page * page;
    ::posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
#endif
}

/// A second descriptor whose reads go past the page cache; invalid with errno set if that is refused.
Descriptor open_direct(const std::string &path) {
#if defined(__APPLE__)
    Descriptor direct = open_retrying(path, O_NONBLOCK);
    if (direct.valid() && ::fcntl(direct.get(), F_NOCACHE, 1) != 0) {
        const int number = errno;
        direct = Descriptor();
        errno = number;
    }
    return direct;
#elif defined(O_DIRECT)
    return open_retrying(path, O_NONBLOCK | O_DIRECT);
#else
    errno = ENOTSUP;
    return Descriptor();
#endif
}

/// What the kernel itself says about direct reads of `fd`: the block they need, 0 for "impossible", or
/// nothing when it does not answer.
std::optional<size_t> block_from_kernel([[maybe_unused]] int fd) {
    // Android's app sandbox kills a process for system calls its version does not know, so there only the
    // library's own wrapper is used, where it exists.
#if defined(STATX_DIOALIGN) && (!defined(__ANDROID__) || __ANDROID_API__ >= 30)
    struct statx facts = {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
        (facts.stx_mask & STATX_DIOALIGN) != 0) {
        if (facts.stx_dio_offset_align == 0) {
            return 0;
        }
        return std::max<size_t>(facts.stx_dio_mem_align, facts.stx_dio_offset_align);
    }
#endif
    return std::nullopt;
}

void advise_mapped(std::span<std::byte> mapped, MapAdvice advice) {
    // Only advice: where it is refused, pages come in as the system likes.
    switch (advice) {
    case MapAdvice::Normal:
        break;
    case MapAdvice::Random:
        ::madvise(mapped.data(), mapped.size(), MADV_RANDOM);
        break;
    case MapAdvice::WillNeed:
        ::madvise(mapped.data(), mapped.size(), MADV_WILLNEED);
        break;
    }
}

class PosixFile final : public IFile {
public:
    PosixFile(std::string path, Descriptor buffered, uint64_t size)
        : path_(std::move(path)), size_(size), buffered_(std::move(buffered)) {}

    Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, Access access) override;
    Status map_over(uint64_t offset, std::span<std::byte> where, MapAdvice advice) override;

    [[nodiscard]] uint64_t size() const override { return size_; }
    [[nodiscard]] size_t alignment() const override { return block_; }
    [[nodiscard]] bool direct_trusted() const override { return direct_.valid(); }
    [[nodiscard]] const std::string &direct_refusal() const override { return refusal_; }
    [[nodiscard]] const std::string &path() const override { return path_; }
    [[nodiscard]] std::optional<int> descriptor(Access access) const override {
        const Descriptor &descriptor = access == Access::Direct ? direct_ : buffered_;
        return descriptor.valid() ? std::optional(descriptor.get()) : std::nullopt;
    }

    /// Records why direct reads are not used.
    void refuse_direct(std::string_view why) {
        direct_ = Descriptor();
        block_ = 1;
        refusal_ = fmt::format("direct reads of {} are not used: {}", path_, why);
    }

    /// Opens the file a second time for direct reads and keeps them only if probing reads are right.
    void try_direct(const struct stat &opened);

private:
    /// Compares one direct block with its buffered twin; returns what is wrong, or nothing.
    std::string probe_block(uint64_t offset, std::span<std::byte> expected, std::span<std::byte> direct);
    std::string probe();

    std::string path_;
    uint64_t size_;
    Descriptor buffered_;
    Descriptor direct_; ///< valid only when trusted (and while probing)
    size_t block_ = 1;
    std::string refusal_;
};

Result<size_t> PosixFile::read_at(uint64_t offset, std::span<std::byte> into, Access access) {
    if (access == Access::Direct && !direct_.valid()) {
        return fail(ErrorCode::Unsupported, refusal_);
    }
    const int fd = access == Access::Direct ? direct_.get() : buffered_.get();
    const size_t wanted = std::min(into.size(), largest_read);
    ssize_t got = 0;
    do {
        got = ::pread(fd, into.data(), wanted, static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        const int number = errno;
        return fail(ErrorCode::Io,
                    fmt::format("cannot read {} at offset {}: {}", path_, offset, errno_text(number)));
    }
    return static_cast<size_t>(got);
}

Status PosixFile::map_over(uint64_t offset, std::span<std::byte> where, MapAdvice advice) {
    const size_t page = page_size();
    const auto refuse = [&](ErrorCode code, std::string_view why) {
        return fail(code, fmt::format("cannot map {} bytes of {} at offset {}: {}", where.size(), path_,
                                      offset, why));
    };
    const auto address = reinterpret_cast<uintptr_t>(where.data());
    if (where.empty() || offset % page != 0 || address % page != 0 || where.size() % page != 0) {
        return refuse(ErrorCode::InvalidArgument, fmt::format("not whole pages of {} bytes", page));
    }
    const uint64_t end = (size_ + page - 1) / page * page;
    if (offset >= end || where.size() > end - offset) {
        return refuse(ErrorCode::InvalidArgument, fmt::format("the file ends at byte {}", size_));
    }
    void *mapped = ::mmap(where.data(), where.size(), PROT_READ, MAP_PRIVATE | MAP_FIXED, buffered_.get(),
                          static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
        const int number = errno;
        // The attempt may have unmapped what was there, and a stranger could be given the gap.
        ::mmap(where.data(), where.size(), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANON | MAP_FIXED | MAP_NORESERVE, -1, 0);
        return refuse(number == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::Io, errno_text(number));
    }
    advise_mapped(where, advice);
    return {};
}

std::string PosixFile::probe_block(uint64_t offset, std::span<std::byte> expected,
                                   std::span<std::byte> direct) {
    const size_t inside = static_cast<size_t>(std::min<uint64_t>(expected.size(), size_ - offset));
    const Result<size_t> truth = read_at(offset, expected, Access::Buffered);
    // Bytes that differ from the right ones, so that a read which leaves the memory alone is found out.
    std::transform(expected.begin(), expected.end(), direct.begin(), [](std::byte value) { return ~value; });
    const Result<size_t> got = read_at(offset, direct, Access::Direct);
    forget_cached(buffered_.get(), offset, expected.size());
    if (!truth) {
        return truth.error().message;
    }
    if (!got) {
        return got.error().message;
    }
    if (*got < inside || *truth < inside) {
        return fmt::format("a probing read at offset {} gave {} bytes of {} ({} buffered)", offset, *got,
                           inside, *truth);
    }
    if (std::memcmp(expected.data(), direct.data(), inside) != 0) {
        return fmt::format("a probing read at offset {} gave other bytes than a buffered one", offset);
    }
    return {};
}

std::string PosixFile::probe() {
    Result<ReservedMemory> memory = ReservedMemory::reserve(3 * block_, MemoryUse::Reserved);
    if (!memory) {
        return memory.error().message;
    }
    const std::span<std::byte> expected = memory->bytes().first(block_);
    // An odd multiple of the block, and no better aligned than that, in memory and (second) in the file.
    const std::span<std::byte> direct = memory->bytes().subspan(block_, block_);
    const uint64_t last = size_ == 0 ? 0 : (size_ - 1) / block_ * block_;
    for (const uint64_t offset : {uint64_t{0}, uint64_t{block_}, last}) {
        if (offset > last) {
            continue;
        }
        std::string wrong = probe_block(offset, expected, direct);
        if (!wrong.empty()) {
            return wrong;
        }
    }
    return {};
}

void PosixFile::try_direct(const struct stat &opened) {
    direct_ = open_direct(path_);
    if (!direct_.valid()) {
        const int number = errno;
        refuse_direct(fmt::format("the file system refuses to open it so ({})", errno_text(number)));
        return;
    }
    struct stat again = {};
    if (::fstat(direct_.get(), &again) != 0 || again.st_dev != opened.st_dev ||
        again.st_ino != opened.st_ino) {
        refuse_direct("the file was replaced while it was being opened");
        return;
    }
    const size_t guess = std::clamp(static_cast<size_t>(opened.st_blksize), smallest_block, usual_block);
    const size_t told = block_from_kernel(direct_.get()).value_or(guess);
    if (told == 0) {
        refuse_direct("the kernel says this file cannot be read so");
        return;
    }
    block_ = std::max(told, smallest_block);
    if (!std::has_single_bit(block_) || block_ > largest_block) {
        refuse_direct(fmt::format("they would need blocks of {} bytes", told));
        return;
    }
    const std::string wrong = probe();
    if (!wrong.empty()) {
        refuse_direct(wrong);
    }
}

class PosixFileSystem final : public IFileSystem {
public:
    Result<std::unique_ptr<IFile>> open(const std::string &path, bool want_direct) override {
        // Not blocking, or opening a FIFO by mistake would wait for a writer for ever. Means nothing to a
        // regular file.
        Descriptor buffered = open_retrying(path, O_NONBLOCK);
        if (!buffered.valid()) {
            const int number = errno;
            return fail(code_of_open_error(number),
                        fmt::format("cannot open {}: {}", path, errno_text(number)));
        }
        struct stat facts = {};
        if (::fstat(buffered.get(), &facts) != 0) {
            const int number = errno;
            return fail(ErrorCode::Io, fmt::format("cannot examine {}: {}", path, errno_text(number)));
        }
        if (!S_ISREG(facts.st_mode)) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} is {}, not a regular file", path,
                                    S_ISDIR(facts.st_mode) ? "a directory" : "a device, pipe or socket"));
        }
        advise_random(buffered.get());
        auto file =
            std::make_unique<PosixFile>(path, std::move(buffered), static_cast<uint64_t>(facts.st_size));
        if (want_direct) {
            file->try_direct(facts);
        } else {
            file->refuse_direct("they were not asked for");
        }
        return file;
    }
};

} // namespace

IFileSystem &system_files() {
    static PosixFileSystem files; // has no state
    return files;
}

void drop_cached([[maybe_unused]] const IFile &file) {
#ifndef __APPLE__
    if (const std::optional<int> fd = file.descriptor(Access::Buffered)) {
        ::posix_fadvise(*fd, 0, 0, POSIX_FADV_DONTNEED);
    }
#endif
}

} // namespace sluice::platform
