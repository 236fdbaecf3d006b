// Address space and big anonymous memory, as the system gives them out.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <span>

namespace sluice::platform {

/// What a reservation is for; decides what the system is advised.
enum class MemoryUse {
    Reserved, ///< address space that may never be touched: no commit charge, no huge pages
    Closed,   ///< the same, and a fault to touch until it is opened
    Arena,    ///< memory that will be filled and reused: huge pages advised
};

/// Page-aligned anonymous memory, zero until written, given back on destruction. Move-only.
class ReservedMemory {
public:
    ReservedMemory() = default;
    ~ReservedMemory();
    ReservedMemory(ReservedMemory &&other) noexcept;
    ReservedMemory &operator=(ReservedMemory &&other) noexcept;
    ReservedMemory(const ReservedMemory &) = delete;
    ReservedMemory &operator=(const ReservedMemory &) = delete;

    /// Reserves `size` bytes (rounded up to whole pages; 0 gives an empty object).
    /// Arena memory starts at a 2 MiB boundary. Errors: OutOfMemory with size and errno text.
    static Result<ReservedMemory> reserve(size_t size, MemoryUse use);

    [[nodiscard]] std::span<std::byte> bytes() const { return {base_, size_}; }

    /// Gives the whole pages inside [offset, offset+length) back; they read as zero afterwards.
    void discard(size_t offset, size_t length);

    /// The same for any part of anonymous memory: gives back the whole pages inside `range`.
    static void discard_pages(std::span<std::byte> range);

    /// Lets every page that `range` has a part of be read and written, or none of them. Parts of Closed
    /// memory; pages that are closed keep what they hold. Errors: OutOfMemory with the errno text.
    static Status open_pages(std::span<std::byte> range);
    static Status close_pages(std::span<std::byte> range);

    /// Tells the system that a part of Reserved memory will be filled whole and kept: huge pages are welcome.
    static void advise_filled(std::span<std::byte> range);

private:
    std::byte *base_ = nullptr;
    size_t size_ = 0;
    std::byte *mapping_ = nullptr; ///< start of what was mapped, before aligning
    size_t mapping_size_ = 0;
};

/// Gives pages of the heap that nothing is allocated in back to the system, where the C library can (glibc).
/// Takes milliseconds for a large heap.
void trim_heap();

/// The size of the pages in which memory is given back and files are mapped, in bytes: the system's, unless a
/// PretendedPageSize lives. A power of two.
size_t page_size();

/// The system's, whatever is pretended.
size_t system_page_size();

/// For tests, a kernel with larger pages: while it lives page_size() is `bytes` for the whole process. A
/// power of two, no less than the system's. One at a time; memory that was reserved outside of its life is
/// not worked on within, nor the other way round.
class PretendedPageSize {
public:
    explicit PretendedPageSize(size_t bytes);
    ~PretendedPageSize();
    PretendedPageSize(const PretendedPageSize &) = delete;
    PretendedPageSize &operator=(const PretendedPageSize &) = delete;
};

} // namespace sluice::platform
