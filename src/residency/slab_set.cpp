#include "residency/slab_set.h"

#include <algorithm>
#include <bit>

namespace sluice::residency {

namespace {

constexpr size_t kFewestBuckets = 64;

} // namespace

size_t SlabSet::bucket_of(uint64_t key) const {
    // Neighbouring keys are the rule; the upper bits of the product scatter them.
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 32) & (buckets_.size() - 1);
}

void SlabSet::reserve_more(size_t count) {
    if (const size_t wanted = slabs_.size() + count - std::min(count, spares_); wanted > buckets_.size()) {
        rehash(std::bit_ceil(std::max(wanted, kFewestBuckets)));
    }
    while (spares_ < count) {
        Slab &slab = slabs_.emplace_back();
        slab.chained = spare_;
        spare_ = &slab;
        ++spares_;
    }
}

void SlabSet::rehash(size_t buckets) {
    std::vector<Slab *> old(buckets, nullptr);
    old.swap(buckets_);
    for (Slab *slab : old) {
        while (slab != nullptr) {
            Slab *const next = slab->chained;
            Slab *&bucket = buckets_[bucket_of(slab->key)];
            slab->chained = bucket;
            bucket = slab;
            slab = next;
        }
    }
}

Slab *SlabSet::find(uint64_t key) const {
    if (buckets_.empty()) {
        return nullptr;
    }
    Slab *slab = buckets_[bucket_of(key)];
    while (slab != nullptr && slab->key != key) {
        slab = slab->chained;
    }
    return slab;
}

Slab &SlabSet::insert(uint64_t key) {
    Slab &slab = *spare_;
    spare_ = slab.chained;
    --spares_;
    slab.key = key;
    slab.pins = 1;
    slab.state = SlabState::Loading;
    slab.read_next = nullptr;
    Slab *&bucket = buckets_[bucket_of(key)];
    slab.chained = bucket;
    bucket = &slab;
    ++size_;
    ++pinned_;
    return slab;
}

void SlabSet::erase(Slab &slab) {
    unlink(slab);
    Slab **link = &buckets_[bucket_of(slab.key)];
    while (*link != &slab) {
        link = &(*link)->chained;
    }
    *link = slab.chained;
    slab.error.reset();
    slab.chained = spare_;
    spare_ = &slab;
    ++spares_;
    --size_;
}

void SlabSet::pin(Slab &slab) {
    if (slab.pins++ == 0) {
        unlink(slab);
        ++pinned_;
    }
}

void SlabSet::unpin(Slab &slab) {
    if (--slab.pins > 0) {
        return;
    }
    --pinned_;
    slab.older = newest_;
    slab.newer = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = &slab;
    newest_ = &slab;
}

void SlabSet::unlink(Slab &slab) {
    (slab.older != nullptr ? slab.older->newer : oldest_) = slab.newer;
    (slab.newer != nullptr ? slab.newer->older : newest_) = slab.older;
    slab.older = nullptr;
    slab.newer = nullptr;
}

} // namespace sluice::residency
