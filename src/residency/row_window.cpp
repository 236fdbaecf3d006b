#include "residency/row_window.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <utility>

namespace sluice::residency {

namespace {

using platform::Access;
using storage::ReadRequest;

/// A key is the table's number above the slab's, counted from the first one the table touches.
constexpr int kTableShift = 40;

constexpr uint64_t first_key(TableId table) {
    return uint64_t{table} << kTableShift;
}

constexpr TableId table_of(uint64_t key) {
    return static_cast<TableId>(key >> kTableShift);
}

constexpr uint64_t slab_of(uint64_t key) {
    return key & ((uint64_t{1} << kTableShift) - 1);
}

/// Adjacent slabs share a read up to this size: what comes first should not wait long for what comes last.
constexpr uint64_t kMostBytesPerRead = uint64_t{1} << 20;

/// Reads of whole tables, where only throughput counts.
constexpr uint64_t kBytesPerWholeRead = uint64_t{8} << 20;

/// The error for whoever waits; null for none, and where there is no memory to keep it.
std::shared_ptr<const Error> note(Status &status) {
    try {
        return status ? nullptr : std::make_shared<const Error>(std::move(status.error()));
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

Error noted(const std::shared_ptr<const Error> &error) {
    return error != nullptr
               ? *error
               : Error{ErrorCode::OutOfMemory, "a read failed, and no memory was left to say why"};
}

} // namespace

Result<std::unique_ptr<RowWindow>> RowWindow::create(size_t window_bytes, Access access,
                                                     storage::IReadEngine &engine) {
    if (window_bytes < slab_bytes()) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("a row window of {} bytes cannot hold a slab of {}", window_bytes, slab_bytes()));
    }
    return std::unique_ptr<RowWindow>(new RowWindow(window_bytes, access, engine));
}

RowWindow::~RowWindow() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return reads_in_flight_ == 0; });
}

TableId RowWindow::add(RowTable table) {
    tables_.push_back({.mirrored = mirror(std::move(table), access_), .materialized = {}});
    return static_cast<TableId>(tables_.size() - 1);
}

// -- gathers -----------------------------------------------------------------------------------------------

bool RowWindow::begin(RowGather &gather, TableId table, std::span<const uint64_t> row_offsets,
                      size_t row_bytes, Overshoot overshoot) {
    gather.table = table;
    gather.slabs.clear();
    if (!tables_[table].materialized) {
        try {
            list_slabs(tables_[table].mirrored, row_offsets, row_bytes, first_key(table), gather.slabs);
            if (!claim(gather.slabs, overshoot)) {
                gather.slabs.clear();
                return false;
            }
        } catch (const std::bad_alloc &) {
            gather.slabs.clear();
            throw;
        }
    }
    gather.active = true;
    const std::lock_guard lock(mutex_);
    counters_.rows += row_offsets.size();
    return true;
}

/// Pins the slabs, and starts reads for those that are missing. False, with nothing done, if that may not be.
bool RowWindow::claim(std::span<const uint64_t> keys, Overshoot overshoot) {
    size_t missing = 0;
    size_t unpinned = 0;
    found_.clear();
    found_.reserve(keys.size());
    for (const uint64_t key : keys) {
        Slab *slab = slabs_.find(key);
        found_.push_back(slab);
        missing += slab == nullptr ? 1 : 0;
        unpinned += slab == nullptr || slab->pins == 0 ? 1 : 0;
    }
    if (overshoot == Overshoot::Never && slabs_.pinned() + unpinned > window_slabs_) {
        return false;
    }
    slabs_.reserve_more(missing);
    requests_.clear();
    requests_.reserve(missing);
    // From here on only the engine may throw.
    for (Slab *slab : found_) {
        if (slab != nullptr) {
            slabs_.pin(*slab);
        }
    }
    if (missing > 0) {
        // Before the reads, though they have to wait for it: memory must not grow meanwhile, and giving it
        // back by turns with them was no faster.
        make_room(missing);
        prepare_reads(keys);
        submit_reads(keys);
    }
    return true;
}

/// Inserts the slabs that are missing, and fills requests_ with their reads.
void RowWindow::prepare_reads(std::span<const uint64_t> keys) {
    const MirroredTable &table = tables_[table_of(keys.front())].mirrored;
    const uint64_t most = kMostBytesPerRead / slab_bytes_;
    for (size_t i = 0; i < keys.size();) {
        if (found_[i] != nullptr) {
            ++i;
            continue;
        }
        Slab &first = slabs_.insert(keys[i]);
        uint64_t slabs = 1;
        for (Slab *last = &first; slabs < most; ++slabs) {
            const size_t next = i + slabs;
            if (next == keys.size() || found_[next] != nullptr || keys[next] != keys[i] + slabs) {
                break;
            }
            last->read_next = &slabs_.insert(keys[next]);
            last = last->read_next;
        }
        ReadRequest &request = requests_.emplace_back(slab_request(table, slab_of(keys[i]), slabs));
        request.done = [this, read = &first](Status status) { finished(*read, std::move(status)); };
        i += slabs;
    }
}

void RowWindow::submit_reads(std::span<const uint64_t> keys) {
    uint64_t bytes = 0;
    for (const ReadRequest &request : requests_) {
        bytes += request.needed;
    }
    {
        const std::lock_guard lock(mutex_);
        reads_in_flight_ += requests_.size();
        counters_.reads += requests_.size();
        counters_.bytes_read += bytes;
        counters_.resident_bytes = slabs_.size() * slab_bytes_;
    }
    try {
        engine_.submit(requests_);
    } catch (const std::bad_alloc &) {
        {
            const std::lock_guard lock(mutex_);
            reads_in_flight_ -= requests_.size();
            counters_.reads -= requests_.size();
            counters_.bytes_read -= bytes;
        }
        for (size_t i = 0; i < keys.size(); ++i) {
            if (found_[i] == nullptr) {
                slabs_.find(keys[i])->state = SlabState::Failed; // nobody else knows of it
            }
        }
        release(keys);
        throw;
    }
}

void RowWindow::finished(Slab &first, Status status) {
    const std::shared_ptr<const Error> error = note(status);
    // Everything happens under the lock: once nothing is in flight the destructor may run.
    const std::lock_guard lock(mutex_);
    bool wake = --reads_in_flight_ == 0;
    for (Slab *slab = &first; slab != nullptr; slab = slab->read_next) {
        slab->state = status ? SlabState::Ready : SlabState::Failed;
        slab->error = error;
        wake = wake || slab == awaited_;
    }
    counters_.errors += status ? 0 : 1;
    if (wake) {
        arrived_.notify_all();
    }
}

/// Sleeps until none of the slabs is on its way; returns the first one that failed, or null.
const Slab *RowWindow::await(std::span<const uint64_t> keys) {
    const Slab *failed = nullptr;
    std::unique_lock lock(mutex_);
    // Backwards: reads end about in order, so whoever slept for the last one hardly sleeps again.
    for (size_t i = keys.size(); i-- > 0;) {
        const Slab *slab = slabs_.find(keys[i]);
        awaited_ = slab;
        arrived_.wait(lock, [slab] { return slab->state != SlabState::Loading; });
        failed = slab->state == SlabState::Failed ? slab : failed;
    }
    awaited_ = nullptr;
    return failed;
}

Status RowWindow::wait(RowGather &gather) {
    const Slab *failed = gather.active ? await(gather.slabs) : nullptr;
    if (failed == nullptr) {
        return {};
    }
    return fail(noted(failed->error).with_context("rows of " + tables_[gather.table].mirrored.what.name));
}

void RowWindow::end(RowGather &gather) {
    if (!gather.active) {
        return;
    }
    await(gather.slabs);
    release(gather.slabs);
    gather.slabs.clear();
    gather.active = false;
}

// -- giving back -------------------------------------------------------------------------------------------

/// Takes back one pin of each, forgets those that failed, and goes back under the window.
void RowWindow::release(std::span<const uint64_t> keys) {
    Run run;
    for (const uint64_t key : keys) {
        Slab &slab = *slabs_.find(key);
        slabs_.unpin(slab);
        // The state of one that others have pinned may just be changing.
        if (slab.pins == 0 && slab.state == SlabState::Failed) {
            discard(run, key);
            slabs_.erase(slab);
        }
    }
    discard(run);
    make_room(0);
}

/// Evicts until `wanted` more slabs fit, or nothing is left that may go.
void RowWindow::make_room(uint64_t wanted) {
    Run run;
    uint64_t evicted = 0;
    while (slabs_.size() + wanted > window_slabs_ && slabs_.oldest() != nullptr) {
        Slab &oldest = *slabs_.oldest();
        discard(run, oldest.key);
        slabs_.erase(oldest);
        ++evicted;
    }
    discard(run);
    const std::lock_guard lock(mutex_);
    counters_.evictions += evicted;
    counters_.resident_bytes = slabs_.size() * slab_bytes_;
}

/// Gives back a slab, though not before one comes that does not follow on those collected in `run`.
void RowWindow::discard(Run &run, uint64_t key) const {
    if (key != run.key + run.slabs) {
        discard(run);
        run = {.key = key, .slabs = 0};
    }
    ++run.slabs;
}

void RowWindow::discard(const Run &run) const {
    if (run.slabs > 0) {
        give_back(tables_[table_of(run.key)].mirrored, slab_of(run.key), run.slabs);
    }
}

// -- whole tables ------------------------------------------------------------------------------------------

Result<Materialized> RowWindow::materialize(TableId table, std::optional<uint64_t> memory_left) {
    const MirroredTable &mirrored = tables_[table].mirrored;
    std::optional<Materialized> &materialized = tables_[table].materialized;
    if (materialized) {
        return *materialized;
    }
    forget(table);
    const bool fits = !memory_left || mirrored.slabs * slab_bytes_ <= *memory_left;
    const Status brought = fits ? read_whole(mirrored) : map_whole(mirrored);
    if (!brought) {
        give_back(mirrored, 0, mirrored.slabs);
        return fail(brought.error().with_context("cannot bring in " + mirrored.what.name));
    }
    materialized = fits ? Materialized::Read : Materialized::Mapped;
    return *materialized;
}

/// Drops what the window knows of a table's slabs; their memory is about to be overwritten.
void RowWindow::forget(TableId id) {
    for (Slab *slab = slabs_.oldest(); slab != nullptr;) {
        Slab *const next = slab->newer;
        if (table_of(slab->key) == id) {
            slabs_.erase(*slab);
        }
        slab = next;
    }
    const std::lock_guard lock(mutex_);
    counters_.resident_bytes = slabs_.size() * slab_bytes_;
}

Status RowWindow::read_whole(const MirroredTable &table) {
    const uint64_t most = kBytesPerWholeRead / slab_bytes_;
    WholeRead whole;
    uint64_t bytes = 0;
    std::vector<ReadRequest> requests;
    try {
        for (uint64_t first = 0; first < table.slabs; first += most) {
            requests.push_back(slab_request(table, first, std::min(most, table.slabs - first)));
            requests.back().done = [this, &whole](Status status) { finished(whole, std::move(status)); };
            bytes += requests.back().needed;
        }
        whole.left = requests.size();
        engine_.submit(requests);
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, "no memory to queue the reads");
    }
    std::unique_lock lock(mutex_);
    counters_.reads += requests.size();
    counters_.bytes_read += bytes;
    arrived_.wait(lock, [&whole] { return whole.left == 0; });
    return whole.failed ? Status(fail(noted(whole.error))) : Status();
}

void RowWindow::finished(WholeRead &whole, Status status) {
    const std::shared_ptr<const Error> error = note(status);
    const std::lock_guard lock(mutex_);
    counters_.errors += status ? 0 : 1;
    if (!status && !whole.failed) {
        whole.failed = true;
        whole.error = error;
    }
    if (--whole.left == 0) {
        arrived_.notify_all();
    }
}

RowCounters RowWindow::counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
}

} // namespace sluice::residency
