// One routing decision at run time: which experts, where their slices are, and the matmuls that use them.
#pragma once

#include "residency/expert_cache.h"
#include "streaming/compute/expert_kernel.h"
#include "streaming/compute/step_clock.h"
#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sluice::streaming {

/// What a step does with each slice once it is there.
enum class StepKind {
    Multiply, ///< our kernel multiplies it, into the original node's output
    Stage,    ///< it is copied to the weight's reserved memory, for the stock kernel to run on next
};

/// One use of a bank: the MUL_MAT_ID node of the original graph and the weight it reads.
struct ExpertUse {
    ggml_tensor *node = nullptr;
    StreamedTensor *weight = nullptr;
};

/// One expert's part of a step. Its output is claimed in chunks of rows by whichever thread is free, so a
/// slow core takes fewer of them, and nobody waits for it longer than it takes for one.
struct WorkItem {
    const ExpertUse *use = nullptr;
    residency::SliceKey key;
    std::span<const TokenUse> tokens;
    int64_t chunk_rows = 0;
    int32_t chunks = 0;
    std::atomic<residency::Slot *> slot{nullptr}; ///< null until a slot was pinned for it
    std::atomic<int32_t> next_chunk{0};
    std::atomic<int32_t> chunks_done{0};
    std::atomic<int32_t> chunks_repacked{0}; ///< only where the bank has a layout of its own
    bool pinned = false;                     ///< guarded by the group's pump lock
    bool dropped = false;                    ///< its output is zeros, and no slot is asked for
};

/// Matmuls that run as one node: adjacent ones on the same activations (gate and up), or a single one.
struct ExpertStep {
    StepKind kind = StepKind::Multiply;
    std::vector<ExpertUse> uses;
    ActivationView activations;
    std::byte *conversion_target = nullptr; ///< null: no conversion needed
    std::atomic<int64_t> next_piece{0};     ///< next piece of the activations to convert
    StepClock running;                      ///< while slices are multiplied
    std::unique_ptr<WorkItem[]> items;
    size_t item_count = 0;
    size_t item_capacity = 0;
};

/// All steps that share one ids tensor. begin() and end() are called by one thread; the other functions by
/// all compute threads of the graph, after begin().
class ExpertGroup {
public:
    ExpertGroup(const ggml_tensor *ids, StreamedStore &store) : ids_(ids), store_(store) {}

    /// Appends a step; steps run in the order added. Called while planning. The reference stays valid.
    ExpertStep &add_step(StepKind kind);

    /// The group whose matmuls come after this one's, if any: with many tokens its experts are read ahead.
    void set_next(ExpertGroup *next) { next_ = next; }

    /// Reads the ids, pins what is resident, starts reads for the rest in consumption order, returns at once.
    /// When the experts need more slots than the cache has, as many as fit; the rest follows as slots come
    /// free. `threads` threads will call run().
    void begin(int threads);

    /// Converts the step's activations; threads share the pieces.
    static void convert(ExpertStep &step);

    /// Works on the step's slices in whatever order they become ready, sleeping when none is. All `threads`
    /// threads of the graph call it. The time in which none of them multiplies goes to the store's counters.
    void run(ExpertStep &step, int threads);

    /// Gives staged pages back after the stock kernel ran.
    static void unstage(const ExpertStep &step);

    /// Takes back all pins. Also right after begin() or a failed or aborted graph.
    void end();

    [[nodiscard]] const ggml_tensor *ids() const { return ids_; }
    [[nodiscard]] size_t bank_count() const;

    /// The slices of `experts` in the order in which the group's steps use them.
    [[nodiscard]] std::vector<residency::SliceKey> slices(std::span<const int32_t> experts) const;

    /// Whether all slices of this expert are in the cache or on their way. Not for a number out of range.
    [[nodiscard]] bool is_cached(int32_t expert) const;

    /// Lets begin() leave out missing experts that weigh little (LossyOptions::drop_cold); `weights` are
    /// known by then: a float for each position and token.
    void set_weights(const ggml_tensor *weights) { weights_ = weights; }

    /// What the decision is guessed to be, for begin() to compare with what it is.
    void expect(std::span<const int32_t> experts) { expected_.assign(experts.begin(), experts.end()); }

    /// Experts to choose from: the smallest bank's.
    [[nodiscard]] int64_t expert_count() const;

private:
    struct Expert {
        int32_t id = 0;
        uint32_t first = 0; ///< into token_uses_
        uint32_t count = 0;
        bool dropped = false;
    };

    bool route();
    void route_nowhere();
    void read_ahead() const;
    void judge_guess();
    void drop_cold();
    void make_items(ExpertStep &step, int threads);
    bool fits_at_once() const;
    bool pump();
    size_t acquire(std::span<WorkItem *const> wanted);
    void unpin(WorkItem &item);
    void process(ExpertStep &step, WorkItem &item, residency::Slot *slot, int32_t chunk,
                 std::vector<std::byte> &spare);
    void repack(WorkItem &item, residency::Slot &slot, int64_t begin, int64_t end,
                std::vector<std::byte> &spare);
    void settle_layout(WorkItem &item);
    bool sweep(ExpertStep &step, StepThread &self, std::vector<std::byte> &spare, bool &waiting);
    void finish_item(WorkItem &item, StepThread &self);

    const ggml_tensor *ids_;
    const ggml_tensor *weights_ = nullptr; ///< null: nothing is left out
    StreamedStore &store_;
    ExpertGroup *next_ = nullptr;
    std::vector<std::unique_ptr<ExpertStep>> steps_;
    std::vector<TokenUse> token_uses_;
    std::vector<uint32_t> chosen_;  ///< ids, token by token
    std::vector<int32_t> expected_; ///< what expect() was told
    std::vector<Expert> experts_;
    std::vector<int32_t> expert_index_; ///< by id, into experts_; -1 unused

    std::mutex pump_mutex_;
    size_t pump_step_ = 0;
    std::atomic<bool> all_acquired_{true};
    bool abandoned_ = false; ///< the graph had failed when begin() ran: only zeros are written
};

} // namespace sluice::streaming
