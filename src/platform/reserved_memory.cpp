// Anonymous memory straight from the system.
#include "platform/reserved_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <utility>

namespace sluice::platform {
namespace {

constexpr size_t huge_page = size_t{2} << 20;

std::atomic<size_t> pretended_page_size{0}; ///< 0: nothing is pretended

constexpr size_t round_up(size_t value, size_t to) {
    return (value + to - 1) / to * to;
}

void advise(std::byte *base, size_t size, MemoryUse use) {
    // Only advice: a kernel without huge pages says no, and that is fine.
#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
    // Where huge pages are the system's default, touching one row of a table would commit 2 MiB.
    ::madvise(base, size, use == MemoryUse::Arena ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
    static_cast<void>(base);
    static_cast<void>(size);
    static_cast<void>(use);
#endif
}

/// Makes whole pages read as zero, giving their memory back if the system lets us.
void drop_pages(std::byte *begin, size_t size) {
#ifdef __APPLE__
    // There MADV_DONTNEED keeps the contents; mapping anew does not.
    if (::mmap(begin, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
        return;
    }
#else
    if (::madvise(begin, size, MADV_DONTNEED) == 0) {
        return;
    }
#endif
    // Locked memory cannot be given back, but must read as zero all the same.
    std::memset(begin, 0, size);
}

/// Of all pages that `range` has a part of.
Status protect(std::span<std::byte> range, int access) {
    const size_t page = page_size();
    const size_t lead = reinterpret_cast<uintptr_t>(range.data()) % page;
    if (::mprotect(range.data() - lead, round_up(lead + range.size(), page), access) == 0) {
        return {};
    }
    const int number = errno;
    return fail(ErrorCode::OutOfMemory, fmt::format("cannot open or close {} bytes of memory: {}",
                                                    range.size(), std::generic_category().message(number)));
}

} // namespace

void trim_heap() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

size_t system_page_size() {
    static const long size = ::sysconf(_SC_PAGESIZE);
    return size > 0 ? static_cast<size_t>(size) : 4096;
}

size_t page_size() {
    const size_t pretended = pretended_page_size.load(std::memory_order_relaxed);
    return pretended != 0 ? pretended : system_page_size();
}

PretendedPageSize::PretendedPageSize(size_t bytes) {
    pretended_page_size = bytes;
}

PretendedPageSize::~PretendedPageSize() {
    pretended_page_size = 0;
}

ReservedMemory::~ReservedMemory() {
    if (mapping_ != nullptr) {
        ::munmap(mapping_, mapping_size_);
    }
}

ReservedMemory::ReservedMemory(ReservedMemory &&other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)), mapping_size_(std::exchange(other.mapping_size_, 0)) {
}

ReservedMemory &ReservedMemory::operator=(ReservedMemory &&other) noexcept {
    ReservedMemory taken(std::move(other)); // frees what this object held, safe for self-assignment
    std::swap(base_, taken.base_);
    std::swap(size_, taken.size_);
    std::swap(mapping_, taken.mapping_);
    std::swap(mapping_size_, taken.mapping_size_);
    return *this;
}

Result<ReservedMemory> ReservedMemory::reserve(size_t size, MemoryUse use) {
    ReservedMemory memory;
    if (size == 0) {
        return memory;
    }
    const size_t page = page_size();
    const size_t start =
        use == MemoryUse::Arena ? std::max(huge_page, page) : page; // what it is a multiple of
    const size_t slack = start > system_page_size() ? start : 0;
    if (size > std::numeric_limits<size_t>::max() - page - slack) {
        return fail(ErrorCode::OutOfMemory, fmt::format("cannot reserve {} bytes of memory: {}", size,
                                                        std::generic_category().message(ENOMEM)));
    }
    const size_t whole = round_up(size, page);
    // An arena will be filled, so it is charged: better refused now than killed later.
    const int charge = use == MemoryUse::Arena ? 0 : MAP_NORESERVE;
    const int access = use == MemoryUse::Closed ? PROT_NONE : PROT_READ | PROT_WRITE;
    void *mapped = ::mmap(nullptr, whole + slack, access, MAP_PRIVATE | MAP_ANON | charge, -1, 0);
    if (mapped == MAP_FAILED) {
        const int number = errno;
        return fail(ErrorCode::OutOfMemory, fmt::format("cannot reserve {} bytes of memory: {}", size,
                                                        std::generic_category().message(number)));
    }
    memory.mapping_ = static_cast<std::byte *>(mapped);
    memory.mapping_size_ = whole + slack;
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    memory.base_ = memory.mapping_ + (round_up(address, start) - address);
    memory.size_ = whole;
    advise(memory.base_, memory.size_, use);
    return memory;
}

Status ReservedMemory::open_pages(std::span<std::byte> range) {
    return protect(range, PROT_READ | PROT_WRITE);
}

Status ReservedMemory::close_pages(std::span<std::byte> range) {
    return protect(range, PROT_NONE);
}

void ReservedMemory::advise_filled(std::span<std::byte> range) {
    const size_t page = page_size();
    const auto address = reinterpret_cast<uintptr_t>(range.data());
    const size_t begin = round_up(address, page) - address;
    if (begin < range.size()) {
        advise(range.data() + begin, (range.size() - begin) / page * page, MemoryUse::Arena);
    }
}

void ReservedMemory::discard(size_t offset, size_t length) {
    if (offset < size_) {
        discard_pages({base_ + offset, std::min(length, size_ - offset)});
    }
}

void ReservedMemory::discard_pages(std::span<std::byte> range) {
    const size_t page = page_size();
    const auto address = reinterpret_cast<uintptr_t>(range.data());
    const size_t begin = round_up(address, page) - address;
    const size_t end = (address + range.size()) / page * page - address;
    if (begin < end && end <= range.size()) {
        drop_pages(range.data() + begin, end - begin);
    }
}

} // namespace sluice::platform
