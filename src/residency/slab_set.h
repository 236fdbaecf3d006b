// The slabs that a row window holds: found by key, and in order of last use while nobody needs them.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace sluice::residency {

enum class SlabState : uint8_t {
    Loading, ///< a read is on its way
    Ready,   ///< the bytes are there
    Failed,  ///< the read failed
};

/// One slab in memory or on its way there. Its address is stable until it is erased. The second group of
/// fields is for whoever performs the reads and follows their locking; the set touches it in insert() and
/// erase() only.
struct Slab {
    uint64_t key = 0;
    uint32_t pins = 0;
    Slab *older = nullptr; ///< neighbours in order of use, while not pinned
    Slab *newer = nullptr;
    Slab *chained = nullptr; ///< next one in the same hash bucket, or among the spare ones

    SlabState state = SlabState::Loading;
    Slab *read_next = nullptr;          ///< next slab that the same read brings
    std::shared_ptr<const Error> error; ///< why it Failed; may be null even then
};

/// Not thread-safe. Allocates only in reserve_more(), and keeps what it allocated: in steady state nothing
/// is.
class SlabSet {
public:
    SlabSet() = default;
    SlabSet(const SlabSet &) = delete; // slabs point to each other
    SlabSet &operator=(const SlabSet &) = delete;

    /// Makes sure that `count` more slabs can be inserted. Throws std::bad_alloc with the set as it was.
    void reserve_more(size_t count);

    /// Null if there is none.
    [[nodiscard]] Slab *find(uint64_t key) const;

    /// Adds a slab, Loading and pinned once. The key is not there yet, and room was reserved.
    Slab &insert(uint64_t key);

    /// Removes a slab that is not pinned. No read of it is on its way.
    void erase(Slab &slab);

    void pin(Slab &slab);
    /// Takes back one pin; without any left the slab counts as just used.
    void unpin(Slab &slab);

    /// The least recently used slab that is not pinned; null if there is none. `newer` leads on from it.
    [[nodiscard]] Slab *oldest() const { return oldest_; }

    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] size_t pinned() const { return pinned_; }

private:
    [[nodiscard]] size_t bucket_of(uint64_t key) const;
    void rehash(size_t buckets);
    void unlink(Slab &slab);

    std::deque<Slab> slabs_;      ///< all there are, spare ones included
    std::vector<Slab *> buckets_; ///< a power of two, at least as many as slabs_
    Slab *spare_ = nullptr;
    size_t spares_ = 0;
    Slab *oldest_ = nullptr;
    Slab *newest_ = nullptr;
    size_t size_ = 0;
    size_t pinned_ = 0;
};

} // namespace sluice::residency
