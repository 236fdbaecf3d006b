#include "streaming/compute/expert_group.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace sluice::streaming {

namespace {

// Memory is read at full speed only some way into a chunk, so few large ones are quickest; but a slice that
// arrives late should be shared by all threads, and where many tokens use an expert its rows stay in cache.
int64_t rows_per_chunk(const ggml_tensor *weight, int threads, size_t uses) {
    constexpr int64_t kLeastRows = 64;
    const int64_t wanted = weight->ne[1] / (threads * static_cast<int64_t>(uses));
    const int64_t rows = std::clamp(wanted, std::min(kLeastRows, weight->ne[1]), weight->ne[1]);
    return (rows + ExpertLayout::kGroupRows - 1) / ExpertLayout::kGroupRows * ExpertLayout::kGroupRows;
}

} // namespace

ExpertStep &ExpertGroup::add_step(StepKind kind) {
    steps_.push_back(std::make_unique<ExpertStep>());
    steps_.back()->kind = kind;
    return *steps_.back();
}

size_t ExpertGroup::bank_count() const {
    size_t banks = 0;
    for (const auto &step : steps_) {
        banks += step->uses.size();
    }
    return banks;
}

void ExpertGroup::begin(int threads) {
    abandoned_ = store_.failed() || !route();
    if (abandoned_) {
        route_nowhere();
    } else {
        judge_guess();
        store_.routed(steps_[0]->uses[0].weight->index, chosen_, static_cast<size_t>(ids_->ne[0]));
    }
    if (!abandoned_ && weights_ != nullptr) {
        drop_cold();
    }
    for (const auto &step : steps_) {
        make_items(*step, threads);
    }
    pump_step_ = abandoned_ ? steps_.size() : 0;
    all_acquired_.store(abandoned_, std::memory_order_release);
    if (abandoned_) {
        return;
    }
    if (fits_at_once()) {
        std::vector<WorkItem *> all;
        for (const auto &step : steps_) {
            for (size_t i = 0; i < step->item_count; ++i) {
                if (!step->items[i].dropped) {
                    all.push_back(&step->items[i]);
                }
            }
        }
        const std::lock_guard lock(pump_mutex_);
        if (acquire(all) < all.size()) {
            // Later steps' slices might keep the first one from ever getting its own: one step at a time.
            for (WorkItem *item : all) {
                unpin(*item);
                item->slot.store(nullptr, std::memory_order_relaxed);
            }
        }
    }
    pump();
}

/// Under the pump lock.
void ExpertGroup::unpin(WorkItem &item) {
    if (item.pinned) {
        item.pinned = false;
        store_.cache()->release(item.slot.load(std::memory_order_relaxed));
    }
}

/// For a graph that has failed: one stand-in expert with every output row, so that all of them become zeros.
/// The ids become 0 as well, since a stock kernel may still look at them, and theirs may be what failed.
void ExpertGroup::route_nowhere() {
    token_uses_.clear();
    for (int64_t token = 0; token < ids_->ne[1]; ++token) {
        for (int64_t position = 0; position < ids_->ne[0]; ++position) {
            token_uses_.push_back({static_cast<int32_t>(position), static_cast<int32_t>(token)});
            if (ids_->op != GGML_OP_NONE) { // computed in this graph, so ours to overwrite
                std::memset(static_cast<char *>(ids_->data) + position * ids_->nb[0] + token * ids_->nb[1], 0,
                            sizeof(int32_t));
            }
        }
    }
    experts_.assign(1, {.id = 0, .first = 0, .count = static_cast<uint32_t>(token_uses_.size())});
}

/// Groups (token, position) pairs by expert, experts in order of first appearance.
bool ExpertGroup::route() {
    const int64_t expert_count = this->expert_count();
    expert_index_.assign(static_cast<size_t>(expert_count), -1);
    experts_.clear();
    chosen_.clear();
    const auto id_at = [this](int64_t position, int64_t token) {
        return *reinterpret_cast<const int32_t *>(static_cast<const char *>(ids_->data) +
                                                  position * ids_->nb[0] + token * ids_->nb[1]);
    };
    for (int64_t token = 0; token < ids_->ne[1]; ++token) {
        for (int64_t position = 0; position < ids_->ne[0]; ++position) {
            const int32_t id = id_at(position, token);
            if (id < 0 || id >= expert_count) {
                store_.set_error(
                    {ErrorCode::Internal, fmt::format("the router chose expert {} of {} for {}", id,
                                                      expert_count, steps_[0]->uses[0].weight->name)});
                return false;
            }
            chosen_.push_back(static_cast<uint32_t>(id));
            int32_t &index = expert_index_[static_cast<size_t>(id)];
            if (index < 0) {
                index = static_cast<int32_t>(experts_.size());
                experts_.push_back({.id = id});
            }
            ++experts_[static_cast<size_t>(index)].count;
        }
    }
    uint32_t next = 0;
    for (Expert &expert : experts_) {
        expert.first = next;
        next += expert.count;
        expert.count = 0;
    }
    token_uses_.resize(next);
    for (int64_t token = 0; token < ids_->ne[1]; ++token) {
        for (int64_t position = 0; position < ids_->ne[0]; ++position) {
            Expert &expert =
                experts_[static_cast<size_t>(expert_index_[static_cast<size_t>(id_at(position, token))])];
            token_uses_[expert.first + expert.count++] = {static_cast<int32_t>(position),
                                                          static_cast<int32_t>(token)};
        }
    }
    return true;
}

void ExpertGroup::make_items(ExpertStep &step, int threads) {
    const size_t count = experts_.size() * step.uses.size();
    if (count > step.item_capacity) {
        step.items = std::make_unique<WorkItem[]>(count);
        step.item_capacity = count;
    }
    step.item_count = count;
    size_t next = 0;
    for (const Expert &expert : experts_) {
        for (const ExpertUse &use : step.uses) {
            WorkItem &item = step.items[next++];
            item.use = &use;
            item.key = {use.weight->index, static_cast<uint32_t>(expert.id)};
            item.tokens = {token_uses_.data() + expert.first, expert.count};
            const int64_t rows = use.weight->tensor->ne[1];
            item.chunk_rows = step.kind == StepKind::Stage
                                  ? rows
                                  : rows_per_chunk(use.weight->tensor, threads, expert.count);
            item.chunks = static_cast<int32_t>((rows + item.chunk_rows - 1) / item.chunk_rows);
            item.slot.store(nullptr, std::memory_order_relaxed);
            item.next_chunk.store(0, std::memory_order_relaxed);
            item.chunks_done.store(0, std::memory_order_relaxed);
            item.chunks_repacked.store(0, std::memory_order_relaxed);
            item.pinned = false;
            item.dropped = expert.dropped;
        }
    }
}

bool ExpertGroup::fits_at_once() const {
    const residency::SlotPlan &plan = store_.cache()->plan();
    std::vector<size_t> needed(plan.classes.size());
    for (const auto &step : steps_) {
        for (const ExpertUse &use : step->uses) {
            needed[plan.class_of_bank[use.weight->index]] += experts_.size();
        }
    }
    for (size_t c = 0; c < needed.size(); ++c) {
        if (needed[c] > store_.cache()->slots_in_use(c)) {
            return false;
        }
    }
    return true;
}

/// Under the pump lock: pins slots for items that have none yet; returns for how many.
size_t ExpertGroup::acquire(std::span<WorkItem *const> wanted) {
    std::vector<residency::SliceKey> keys;
    keys.reserve(wanted.size());
    for (const WorkItem *item : wanted) {
        keys.push_back(item->key);
    }
    std::vector<residency::Slot *> slots(wanted.size());
    const size_t acquired = store_.cache()->acquire(keys, slots);
    for (size_t i = 0; i < wanted.size(); ++i) {
        if (slots[i] != nullptr) {
            wanted[i]->pinned = true;
            wanted[i]->slot.store(slots[i], std::memory_order_release);
        }
    }
    return acquired;
}

/// Goes on acquiring, step by step. The earliest step without all its slots comes first and its slices are
/// released one by one as they are used, so that even a cache of one slot would make progress. Returns
/// whether anything was acquired.
bool ExpertGroup::pump() {
    const std::lock_guard lock(pump_mutex_);
    bool acquired_any = false;
    if (store_.failed()) {
        pump_step_ = steps_.size(); // nothing more is worth reading
        all_acquired_.store(true, std::memory_order_release);
    }
    while (pump_step_ < steps_.size()) {
        ExpertStep &step = *steps_[pump_step_];
        const auto lacking = [&step] {
            std::vector<WorkItem *> items;
            for (size_t i = 0; i < step.item_count; ++i) {
                if (!step.items[i].dropped && step.items[i].slot.load(std::memory_order_relaxed) == nullptr) {
                    items.push_back(&step.items[i]);
                }
            }
            return items;
        };
        if (const auto items = lacking(); !items.empty()) {
            acquired_any = acquire(items) > 0 || acquired_any;
            if (!lacking().empty()) {
                return acquired_any;
            }
        }
        ++pump_step_;
    }
    if (!all_acquired_.exchange(true, std::memory_order_acq_rel)) {
        read_ahead();
    }
    return acquired_any;
}

/// With many tokens nearly every expert of the next layer will be asked for: its slices come while this layer
/// still computes. Only once this layer's own reads are all on their way.
void ExpertGroup::read_ahead() const {
    constexpr int64_t kUsesPerExpert = 4; // of evenly routed experts, 1 in 55 (e^-4) is then read for nothing
    if (next_ == nullptr || ids_->ne[0] * ids_->ne[1] < kUsesPerExpert * next_->expert_count()) {
        return;
    }
    std::vector<int32_t> all(static_cast<size_t>(next_->expert_count()));
    std::iota(all.begin(), all.end(), 0);
    store_.cache()->prefetch(next_->slices(all));
}

int64_t ExpertGroup::expert_count() const {
    int64_t count = INT32_MAX;
    for (const auto &step : steps_) {
        for (const ExpertUse &use : step->uses) {
            count = std::min(count, use.weight->tensor->ne[2]);
        }
    }
    return count;
}

void ExpertGroup::end() {
    const std::lock_guard lock(pump_mutex_);
    for (const auto &step : steps_) {
        for (size_t i = 0; i < step->item_count; ++i) {
            WorkItem &item = step->items[i];
            if (item.chunks_done.load(std::memory_order_relaxed) < item.chunks) {
                settle_layout(item); // whoever was at it ran out of memory
            }
            unpin(item);
        }
        step->item_count = 0;
        if (ids_->ne[1] > 1) {
            step->items.reset();
            step->item_capacity = 0;
        }
    }
    if (ids_->ne[1] > 1) {
        // A prompt's lists are long, and each layer of each graph kept would hold its own.
        token_uses_ = std::vector<TokenUse>();
        chosen_ = std::vector<uint32_t>();
    }
    all_acquired_.store(true, std::memory_order_release);
}

} // namespace sluice::streaming
