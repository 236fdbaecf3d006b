// The port through which a gather gets the rows it is about to read from a table that is not in memory.
#pragma once

#include "base/error.h"
#include "platform/file.h"
#include "platform/reserved_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::residency {

/// What is read at once and given back at once: an aligned piece of the file of 16 KiB, or a page where pages
/// are larger. A smaller request costs a flash device as much, and neighbouring rows recur. A power of two,
/// the same while the process runs.
inline size_t slab_bytes() {
    return std::max(size_t{16} << 10, platform::page_size());
}

using TableId = uint32_t;

/// A weight of which only rows are gathered. Its memory is reserved address space that mirrors the file: byte
/// `offset + i` of the file belongs at `data + i`, `data` is congruent to `offset` modulo slab_bytes(), and
/// all slabs that the table touches lie inside the reservation as wholes.
struct RowTable {
    std::string name; ///< the tensor's name in the file, for messages
    platform::IFile *file = nullptr;
    uint64_t offset = 0;       ///< bytes from the start of the file
    uint64_t bytes = 0;        ///< size of the table
    std::byte *data = nullptr; ///< its first byte
};

/// Totals since creation, over all tables.
struct RowCounters {
    uint64_t rows = 0;           ///< rows asked for, repeated ones counted each time
    uint64_t reads = 0;          ///< requests made of storage; adjacent slabs share one
    uint64_t bytes_read = 0;     ///< bytes they asked for
    uint64_t evictions = 0;      ///< slabs given back
    uint64_t errors = 0;         ///< requests that failed
    uint64_t resident_bytes = 0; ///< held now, slabs on their way included; materialized tables not
};

/// Slabs pinned for one gather. Reused from run to run; filled and emptied by its row source only.
struct RowGather {
    std::vector<uint64_t> slabs; ///< keys of what is pinned; the source's own encoding
    TableId table = 0;
    bool active = false; ///< between begin() and end()
};

/// Whether a gather may exceed the window.
enum class Overshoot { Never, Allowed };

/// How materialize() brought a table in.
enum class Materialized {
    Read,   ///< read whole into its reservation
    Mapped, ///< the file was mapped over its reservation, without read-ahead
};

/// One graph at a time uses a source: begin(), wait(), end() and materialize() are not called concurrently.
/// counters() may be called from any thread.
class IRowSource {
public:
    virtual ~IRowSource() = default;

    /// Pins the slabs of the rows that start at `row_offsets` (bytes from the table's first byte, any order,
    /// repeats allowed) and are `row_bytes` long, and starts reads for those missing, in ascending order.
    /// Returns at once. With Overshoot::Never nothing is done and false returned if the window cannot hold
    /// them beside what is pinned already. With Allowed the window is exceeded as far as needed, until end().
    /// A materialized table needs nothing: true, and wait() returns at once.
    /// `gather` must not be active. Throws std::bad_alloc with nothing pinned.
    virtual bool begin(RowGather &gather, TableId table, std::span<const uint64_t> row_offsets,
                       size_t row_bytes, Overshoot overshoot) = 0;

    /// Sleeps until all slabs of an active gather are there. Errors: Io (InvalidFormat where the file ends
    /// too soon), naming table, file, offset and cause; the slabs that failed are forgotten at end(), so that
    /// a later gather reads them again.
    virtual Status wait(RowGather &gather) = 0;

    /// Unpins the gather's slabs and gives back what exceeds the window. Waits for its reads if wait() was
    /// not called. Does nothing if it is not active.
    virtual void end(RowGather &gather) = 0;

    /// Brings the whole table in, once, for good: read if it fits in `memory_left` bytes (empty: unknown,
    /// then it is read), else mapped with random-access advice. No gather of it may be active. Slabs it held
    /// no longer count for the window. Errors: Io, OutOfMemory; the table then stays as it was.
    virtual Result<Materialized> materialize(TableId table, std::optional<uint64_t> memory_left) = 0;

    [[nodiscard]] virtual RowCounters counters() const = 0;
};

} // namespace sluice::residency
