#include "residency/mirrored_table.h"

#include "platform/reserved_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::residency {

namespace {

#ifdef SLUICE_POISON
constexpr bool kPoison = true;
#else
constexpr bool kPoison = false;
#endif
constexpr std::byte kPoisonByte{0xFF};
constexpr uint64_t kMostPoisonedBytes = uint64_t{256} << 20;

std::span<std::byte> memory_of(const MirroredTable &table, uint64_t first, uint64_t count) {
    return {table.begin + (first << table.slab_shift), static_cast<size_t>(count << table.slab_shift)};
}

} // namespace

MirroredTable mirror(RowTable table, platform::Access access) {
    const size_t slab = slab_bytes();
    const bool direct = access == platform::Access::Direct && table.file->direct_trusted() &&
                        slab % table.file->alignment() == 0;
    const uint64_t residue = table.offset % slab;
    MirroredTable mirrored{.what = std::move(table)};
    mirrored.file_begin = mirrored.what.offset - residue;
    mirrored.begin = mirrored.what.data - residue;
    mirrored.slabs = (residue + mirrored.what.bytes + slab - 1) / slab;
    mirrored.slab_shift = std::countr_zero(slab);
    mirrored.access = direct ? platform::Access::Direct : platform::Access::Buffered;
    if (kPoison) {
        give_back(mirrored, 0, mirrored.slabs);
    }
    return mirrored;
}

void list_slabs(const MirroredTable &table, std::span<const uint64_t> row_offsets, size_t row_bytes,
                uint64_t base, std::vector<uint64_t> &slabs) {
    if (row_bytes == 0 || row_bytes > table.what.bytes) {
        return;
    }
    const uint64_t residue = table.what.offset - table.file_begin;
    slabs.reserve(slabs.size() + row_offsets.size());
    for (const uint64_t row : row_offsets) {
        if (row > table.what.bytes - row_bytes) {
            continue;
        }
        const uint64_t last = base + ((residue + row + row_bytes - 1) >> table.slab_shift);
        for (uint64_t slab = base + ((residue + row) >> table.slab_shift); slab <= last; ++slab) {
            if (slabs.empty() || slabs.back() != slab) {
                slabs.push_back(slab);
            }
        }
    }
    std::sort(slabs.begin(), slabs.end());
    slabs.erase(std::unique(slabs.begin(), slabs.end()), slabs.end());
}

storage::ReadRequest slab_request(const MirroredTable &table, uint64_t first, uint64_t count) {
    const uint64_t offset = table.file_begin + (first << table.slab_shift);
    const std::span<std::byte> into = memory_of(table, first, count);
    // The last slab may reach past the end of the file. The table must not, and if it does the read says so.
    const uint64_t end = std::max(table.what.file->size(), table.what.offset + table.what.bytes);
    return {.file = table.what.file,
            .offset = offset,
            .into = into,
            .needed = static_cast<size_t>(std::min<uint64_t>(into.size(), end - offset)),
            .access = table.access};
}

void give_back(const MirroredTable &table, uint64_t first, uint64_t count) {
    const std::span<std::byte> memory = memory_of(table, first, count);
    platform::ReservedMemory::discard_pages(memory);
    if (kPoison && table.slabs << table.slab_shift <= kMostPoisonedBytes) {
        std::fill(memory.begin(), memory.end(), kPoisonByte);
    }
}

Status map_whole(const MirroredTable &table) {
    const uint64_t page = platform::page_size();
    const uint64_t begin = table.what.offset / page * page;
    const uint64_t end = (table.what.offset + table.what.bytes + page - 1) / page * page;
    std::byte *where = table.begin + (begin - table.file_begin);
    return table.what.file->map_over(begin, {where, static_cast<size_t>(end - begin)},
                                     platform::MapAdvice::Random);
}

} // namespace sluice::residency
