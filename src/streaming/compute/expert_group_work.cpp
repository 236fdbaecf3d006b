// The part of a group that all compute threads run: converting activations, multiplying slices as they
// arrive.
#include "streaming/compute/expert_group.h"

#include "platform/reserved_memory.h"

#include <algorithm>
#include <cstring>

namespace sluice::streaming {

void ExpertGroup::convert(ExpertStep &step) {
    if (step.conversion_target == nullptr) {
        return;
    }
    const ggml_tensor *node = step.uses.front().node;
    const int64_t pieces = conversion_pieces(node);
    for (int64_t piece = step.next_piece.fetch_add(1, std::memory_order_relaxed); piece < pieces;
         piece = step.next_piece.fetch_add(1, std::memory_order_relaxed)) {
        convert_activations(node, piece, step.conversion_target);
    }
}

void ExpertGroup::run(ExpertStep &step, int threads) {
    StepThread self(step.running, threads, store_.counters.stall_nanoseconds,
                    store_.counters.cache_nanoseconds);
    std::vector<std::byte> spare; // for a chunk that is given another layout
    for (;;) {
        const uint32_t seen = abandoned_ ? 0 : store_.cache()->arrivals();
        bool waiting = false;
        const bool progressed = sweep(step, self, spare, waiting);
        if (!waiting) {
            // All work is taken, so nobody waits from now on; but who finishes an item may still have slots
            // to acquire for others.
            self.leave(!all_acquired_.load(std::memory_order_acquire));
            return;
        }
        if (progressed) {
            continue;
        }
        if (!all_acquired_.load(std::memory_order_acquire)) {
            self.now(Doing::Managing);
            if (pump()) {
                continue; // what was acquired may be resident already: no arrival will tell
            }
        }
        self.now(Doing::Waiting);
        store_.cache()->wait_for_arrival(seen);
    }
}

/// One pass over the step's items, working on those that are ready. `waiting`: some are neither done nor
/// ready.
bool ExpertGroup::sweep(ExpertStep &step, StepThread &self, std::vector<std::byte> &spare, bool &waiting) {
    bool progressed = false;
    for (size_t i = 0; i < step.item_count; ++i) {
        WorkItem &item = step.items[i];
        if (item.next_chunk.load(std::memory_order_relaxed) >= item.chunks) {
            continue;
        }
        residency::Slot *slot = item.slot.load(std::memory_order_acquire);
        const residency::SlotState state =
            slot == nullptr ? residency::SlotState::Empty : slot->state.load(std::memory_order_acquire);
        if (state == residency::SlotState::Failed) {
            store_.set_error(slot->error);
        }
        const bool zero = item.dropped || store_.failed();
        if (state != residency::SlotState::Ready && !zero) {
            waiting = true;
            continue;
        }
        for (int32_t chunk = item.next_chunk.fetch_add(1, std::memory_order_relaxed); chunk < item.chunks;
             chunk = item.next_chunk.fetch_add(1, std::memory_order_relaxed)) {
            self.now(Doing::Multiplying);
            process(step, item, zero ? nullptr : slot, chunk, spare);
            progressed = true;
            if (item.chunks_done.fetch_add(1, std::memory_order_acq_rel) + 1 == item.chunks) {
                finish_item(item, self);
            }
        }
    }
    return progressed;
}

void ExpertGroup::process(ExpertStep &step, WorkItem &item, residency::Slot *slot, int32_t chunk,
                          std::vector<std::byte> &spare) {
    ggml_tensor *weight = item.use->weight->tensor;
    if (step.kind == StepKind::Stage) {
        if (slot != nullptr) {
            std::memcpy(static_cast<std::byte *>(weight->data) + item.key.expert * weight->nb[2], slot->data,
                        weight->nb[2]);
        }
        return;
    }
    const int64_t begin = chunk * item.chunk_rows;
    const int64_t end = std::min<int64_t>(begin + item.chunk_rows, weight->ne[1]);
    if (slot == nullptr) {
        zero_rows(item.use->node, item.tokens, begin, end);
        return;
    }
    const ExpertLayout *layout = item.use->weight->layout.get();
    if (layout != nullptr && !slot->repacked) {
        repack(item, *slot, begin, end, spare);
    }
    multiply_rows(item.use->node, {slot->data, layout}, item.tokens, step.activations, begin, end);
}

/// Rows [begin, end) get their layout by the thread that multiplies them next: they are in its cache then.
void ExpertGroup::repack(WorkItem &item, residency::Slot &slot, int64_t begin, int64_t end,
                         std::vector<std::byte> &spare) {
    const auto start = Clock::now();
    const size_t row_bytes = item.use->weight->tensor->nb[1];
    item.use->weight->layout->arrange(
        {slot.data + static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(end - begin) * row_bytes},
        spare);
    item.chunks_repacked.fetch_add(1, std::memory_order_relaxed);
    store_.counters.repack_nanoseconds += nanoseconds_since(start);
}

/// Once all chunks are done. In a graph that fails some may have become zeros instead, unrepacked: such a
/// slot is a mixture that nobody may use again.
void ExpertGroup::settle_layout(WorkItem &item) {
    const int32_t repacked = item.chunks_repacked.load(std::memory_order_relaxed);
    residency::Slot *slot = item.slot.load(std::memory_order_relaxed);
    if (repacked == item.chunks) {
        slot->repacked = true;
        ++store_.counters.repacked_slices;
    } else if (repacked > 0) {
        residency::ExpertCache::spoil(slot);
    }
}

/// While some items still lack a slot, a finished one hands its own on at once; otherwise end() does it in
/// one go.
void ExpertGroup::finish_item(WorkItem &item, StepThread &self) {
    settle_layout(item);
    if (all_acquired_.load(std::memory_order_acquire)) {
        return;
    }
    self.now(Doing::Managing);
    {
        const std::lock_guard lock(pump_mutex_);
        unpin(item);
    }
    pump();
    store_.cache()->wake_waiters();
}

void ExpertGroup::unstage(const ExpertStep &step) {
    for (const ExpertUse &use : step.uses) {
        if (!use.weight->materialized) { // or another context's graph brought it in for good
            platform::ReservedMemory::discard_pages(bytes_of(*use.weight));
        }
    }
}

} // namespace sluice::streaming
