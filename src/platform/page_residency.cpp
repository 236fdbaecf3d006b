#include "platform/page_residency.h"

#include "platform/reserved_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace sluice::platform {

namespace {

/// The whole pages that `range` touches.
struct Pages {
    uintptr_t begin = 0;
    size_t bytes = 0;
};

Pages pages_of(ByteRange range) {
    const size_t page = system_page_size();
    const auto address = reinterpret_cast<uintptr_t>(range.data());
    const uintptr_t begin = address / page * page;
    const uintptr_t end = (address + range.size() + page - 1) / page * page;
    return {begin, end - begin};
}

std::optional<bool> page_resident(uintptr_t address, size_t page) {
#ifdef __linux__
    unsigned char state = 0;
    if (::mincore(reinterpret_cast<void *>(address), page, &state) == 0) {
        return (state & 1U) != 0;
    }
#else
    static_cast<void>(address);
    static_cast<void>(page);
#endif
    return std::nullopt;
}

/// The kernel's table of this process's pages; only its swap bit is read.
class PageMap {
public:
    PageMap() : descriptor_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
    ~PageMap() {
        if (descriptor_ >= 0) {
            ::close(descriptor_);
        }
    }
    PageMap(const PageMap &) = delete;
    PageMap &operator=(const PageMap &) = delete;

    [[nodiscard]] std::optional<bool> swapped(uintptr_t address, size_t page) const {
        constexpr uint64_t kSwapBit = uint64_t{1} << 62U;
        uint64_t entry = 0;
        const auto at = static_cast<off_t>(address / page * sizeof(entry));
        if (descriptor_ < 0 || ::pread(descriptor_, &entry, sizeof(entry), at) != sizeof(entry)) {
            return std::nullopt;
        }
        return (entry & kSwapBit) != 0;
    }

private:
    int descriptor_;
};

/// Counts yes and no; empty if nothing was told.
struct Share {
    size_t yes = 0;
    size_t told = 0;

    void add(std::optional<bool> fact) {
        told += fact ? 1 : 0;
        yes += fact.value_or(false) ? 1 : 0;
    }
    [[nodiscard]] std::optional<double> value() const {
        return told == 0 ? std::nullopt : std::optional(static_cast<double>(yes) / static_cast<double>(told));
    }
};

} // namespace

PageResidency sample_residency(std::span<const ByteRange> ranges, size_t samples) {
    const size_t page = system_page_size();
    std::vector<Pages> all;
    size_t pages = 0;
    for (const ByteRange range : ranges) {
        if (!range.empty()) {
            all.push_back(pages_of(range));
            pages += all.back().bytes / page;
        }
    }
    const size_t step = std::max<size_t>(1, pages / std::max<size_t>(1, samples));
    const PageMap map;
    Share resident;
    Share swapped;
    size_t skip = 0;
    for (const Pages &range : all) {
        size_t at = skip;
        for (; at < range.bytes / page; at += step) {
            const uintptr_t address = range.begin + at * page;
            resident.add(page_resident(address, page));
            swapped.add(map.swapped(address, page));
        }
        skip = at - range.bytes / page;
    }
    return {resident.value(), swapped.value()};
}

Status lock_pages(ByteRange range) {
    const Pages pages = pages_of(range);
    if (pages.bytes == 0 || ::mlock(reinterpret_cast<void *>(pages.begin), pages.bytes) == 0) {
        return {};
    }
    const int number = errno;
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return fail(
            ErrorCode::OutOfMemory,
            fmt::format("{} MiB cannot be locked in memory: this process may lock {} MiB in all; raise "
                        "that with 'ulimit -l' (in KiB) or a memlock line in limits.conf",
                        pages.bytes >> 20U, limit.rlim_cur >> 20U));
    }
    return fail(ErrorCode::OutOfMemory, fmt::format("{} MiB cannot be locked in memory: {}",
                                                    pages.bytes >> 20U, std::strerror(number)));
}

void unlock_pages(ByteRange range) {
    const Pages pages = pages_of(range);
    ::munlock(reinterpret_cast<void *>(pages.begin), pages.bytes);
}

void populate_pages(ByteRange range) {
    const Pages pages = pages_of(range);
    auto *begin = reinterpret_cast<std::byte *>(pages.begin);
#ifdef MADV_POPULATE_READ
    if (::madvise(begin, pages.bytes, MADV_POPULATE_READ) == 0) {
        return;
    }
#endif
    // Older kernels: start the reads, then touch each page.
    ::madvise(begin, pages.bytes, MADV_WILLNEED);
    for (size_t at = 0; at < pages.bytes; at += system_page_size()) {
        static_cast<void>(*static_cast<volatile std::byte *>(begin + at));
    }
}

} // namespace sluice::platform
