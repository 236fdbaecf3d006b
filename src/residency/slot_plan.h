// How the memory of an expert cache is cut into slots. Pure arithmetic, no memory touched.
#pragma once

#include "base/error.h"
#include "platform/file.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::residency {

using BankId = uint32_t;

/// One 3-D weight whose slices (one per expert) are streamed.
struct Bank {
    std::string name; ///< the tensor's name: a key into the file, and for messages
    platform::IFile *file = nullptr;
    uint64_t offset = 0;    ///< bytes from the start of the file to slice 0
    size_t slice_bytes = 0; ///< bytes of one expert's slice; slices follow each other without gaps
    uint32_t expert_count = 0;
};

/// More banks than this on one routing decision are treated as several layers (an ids tensor that all layers
/// share).
constexpr size_t kMaxBanksPerLayer = 8;

/// The banks that one routing decision uses together, as seen in a graph.
struct LayerNeed {
    std::vector<BankId> banks; ///< in consumption order
    uint32_t experts_per_token = 0;
};

/// Slots of one size. Banks share a class if their slices differ by under 3 % in footprint and their reads
/// respect the same block.
struct SlotClass {
    size_t block = 1;  ///< bytes; a slot starts at a multiple of it
    size_t stride = 0; ///< bytes of a slot, padding included
    size_t slots = 0;
    size_t minimum_slots = 0; ///< what the hungriest layer pins for one token
    size_t useful_slots = 0;  ///< one per slice of its banks; more would never be used
};

/// In SlotPlan::class_of_bank: no slot is for the bank.
constexpr size_t kNoClass = SIZE_MAX;

struct SlotPlan {
    std::vector<SlotClass> classes;
    std::vector<size_t> class_of_bank; ///< index into classes, by BankId; kNoClass for one that no layer uses
    size_t arena_bytes = 0;            ///< sum over classes of slots x stride
    size_t minimum_bytes = 0;          ///< the same with minimum_slots
    size_t useful_bytes = 0;           ///< the same with useful_slots: the cache that holds everything
};

/// Block that a read of `bank` must respect: the file's alignment for trusted direct reads, else 1.
size_t read_block(const Bank &bank, platform::Access access);

/// Largest number of bytes any slice of `bank` occupies once its read is widened to whole blocks.
size_t slice_footprint(const Bank &bank, size_t block);

/// Cuts `capacity` bytes into slots, classes sharing it in proportion to the bytes of their banks, each
/// with at least the slots that one layer needs for one token. A bank that no layer uses (loaded, but in no
/// graph) gets none.
/// Errors: OutOfMemory, naming the minimum in MiB, when `capacity` cannot hold that.
Result<SlotPlan> plan_slots(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers,
                            size_t capacity, platform::Access access);

/// Bytes of expert slices that one token touches: the sum over layers of experts x slice bytes.
uint64_t token_working_set(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers);

} // namespace sluice::residency
