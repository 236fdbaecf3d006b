// Row-gathered tables read slab by slab into their reserved memory; a window bounds what stays.
#pragma once

#include "residency/mirrored_table.h"
#include "residency/row_source.h"
#include "residency/slab_set.h"
#include "storage/read_engine.h"

#include <condition_variable>
#include <memory>
#include <mutex>

namespace sluice::residency {

/// All row tables of a model share one window. Least recently used slabs go first; slabs of an active gather
/// never go, and those on their way for one are shared, not read twice. Reads land in place; adjacent slabs
/// share one. In builds with SLUICE_POISON, memory that holds no slab is filled with 0xFF bytes (for tables
/// up to 256 MiB), so that a row that was not fetched cannot pass as zeros.
class RowWindow final : public IRowSource {
public:
    /// `window_bytes` is rounded down to whole slabs; at least one. `engine` and the tables' files outlive
    /// the window. `access`: what to use where a file trusts it. Errors: InvalidArgument if the window is
    /// smaller than a slab.
    static Result<std::unique_ptr<RowWindow>> create(size_t window_bytes, platform::Access access,
                                                     storage::IReadEngine &engine);
    ~RowWindow() override; ///< waits for reads in flight
    RowWindow(const RowWindow &) = delete;
    RowWindow &operator=(const RowWindow &) = delete;

    /// Takes over a table; only before the first begin().
    TableId add(RowTable table);

    /// As promised by the port. Rows that are not wholly inside the table are passed over: the kernel that is
    /// to read them refuses them itself. After std::bad_alloc slabs that nobody needed may be gone.
    bool begin(RowGather &gather, TableId table, std::span<const uint64_t> row_offsets, size_t row_bytes,
               Overshoot overshoot) override;
    Status wait(RowGather &gather) override;
    void end(RowGather &gather) override;

    /// As promised by the port; the message names the table. "Fits" counts whole slabs.
    Result<Materialized> materialize(TableId table, std::optional<uint64_t> memory_left) override;

    [[nodiscard]] RowCounters counters() const override;

private:
    struct Table {
        MirroredTable mirrored;
        std::optional<Materialized> materialized;
    };

    /// Slabs of one table that follow each other.
    struct Run {
        uint64_t key = 0;
        uint64_t slabs = 0;
    };

    /// A table being read whole.
    struct WholeRead {
        size_t left = 0; ///< requests
        std::shared_ptr<const Error> error;
        bool failed = false;
    };

    RowWindow(size_t window_bytes, platform::Access access, storage::IReadEngine &engine)
        : slab_bytes_(slab_bytes()), window_slabs_(window_bytes / slab_bytes_), access_(access),
          engine_(engine) {}

    bool claim(std::span<const uint64_t> keys, Overshoot overshoot);
    void prepare_reads(std::span<const uint64_t> keys);
    void submit_reads(std::span<const uint64_t> keys);
    void finished(Slab &first, Status status);
    const Slab *await(std::span<const uint64_t> keys);
    void release(std::span<const uint64_t> keys);
    void make_room(uint64_t wanted);
    void forget(TableId id);
    void discard(Run &run, uint64_t key) const;
    void discard(const Run &run) const;
    Status read_whole(const MirroredTable &table);
    void finished(WholeRead &whole, Status status);

    const size_t slab_bytes_;
    const uint64_t window_slabs_;
    const platform::Access access_;
    storage::IReadEngine &engine_;

    // Used by begin(), wait(), end() and materialize() only, which are not called concurrently.
    std::vector<Table> tables_;
    SlabSet slabs_;
    std::vector<Slab *> found_;                  ///< scratch of claim(): per key, null for those missing
    std::vector<storage::ReadRequest> requests_; ///< scratch of claim()

    mutable std::mutex mutex_; ///< guards everything below, and state and error of slabs on their way
    std::condition_variable arrived_;
    const Slab *awaited_ = nullptr; ///< whose arrival await() sleeps for
    size_t reads_in_flight_ = 0;
    RowCounters counters_;
};

} // namespace sluice::residency
