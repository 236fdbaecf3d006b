// A row table as slabs of its file: which of them rows touch, where they belong, how they come and go.
#pragma once

#include "residency/row_source.h"
#include "storage/read_engine.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::residency {

/// Slabs (of slab_bytes()) are counted from the first one that the table touches. Plain data; thread-safe
/// while nobody changes it.
struct MirroredTable {
    RowTable what;
    uint64_t file_begin = 0;    ///< where the first slab starts in the file
    std::byte *begin = nullptr; ///< and where it belongs
    uint64_t slabs = 0;
    int slab_shift = 0;                                   ///< a slab has two to the power of this many bytes
    platform::Access access = platform::Access::Buffered; ///< how they are read
};

/// `access`: what to use where the file trusts it and its blocks are no larger than slabs. In builds with
/// SLUICE_POISON, fills the memory as give_back() does.
MirroredTable mirror(RowTable table, platform::Access access);

/// Appends the slabs of the rows that start at `row_offsets` and are `row_bytes` long, each once, ascending;
/// `base` is added to each. Rows not wholly inside the table are passed over. Throws std::bad_alloc.
void list_slabs(const MirroredTable &table, std::span<const uint64_t> row_offsets, size_t row_bytes,
                uint64_t base, std::vector<uint64_t> &slabs);

/// The read that brings `count` slabs from `first` on; `done` is left to the caller.
storage::ReadRequest slab_request(const MirroredTable &table, uint64_t first, uint64_t count);

/// Gives their memory back to the system. In builds with SLUICE_POISON, and for tables up to 256 MiB, fills
/// it with 0xFF bytes instead.
void give_back(const MirroredTable &table, uint64_t first, uint64_t count);

/// Has the file mapped over the table, page by page. Errors as of IFile::map_over().
Status map_whole(const MirroredTable &table);

} // namespace sluice::residency
