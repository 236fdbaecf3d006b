#include "residency/slot_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::residency {

namespace {

// Vector kernels read whole cache lines; a slot never starts inside one.
constexpr size_t kCacheLine = 64;

size_t round_up(size_t value, size_t block) {
    return (value + block - 1) / block * block;
}

double mebibytes(size_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

/// What decides a bank's class.
struct Footprint {
    size_t block = 1;
    size_t stride = 0;
};

/// The banks that some layer uses, ascending.
std::vector<BankId> used_banks(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers) {
    std::vector<bool> is_used(banks.size(), false);
    for (const LayerNeed &layer : layers) {
        for (const BankId bank : layer.banks) {
            is_used[bank] = true;
        }
    }
    std::vector<BankId> used;
    for (BankId bank = 0; bank < banks.size(); ++bank) {
        if (is_used[bank]) {
            used.push_back(bank);
        }
    }
    return used;
}

/// Puts the banks of `order` into classes, the largest footprint of each deciding its stride. Large blocks
/// come first, so that every class starts at a multiple of its own.
void assign_classes(const std::vector<Bank> &banks, std::vector<BankId> order,
                    const std::vector<Footprint> &footprints, SlotPlan &plan) {
    std::stable_sort(order.begin(), order.end(), [&](BankId a, BankId b) {
        return footprints[a].block != footprints[b].block ? footprints[a].block > footprints[b].block
                                                          : footprints[a].stride > footprints[b].stride;
    });
    plan.class_of_bank.assign(banks.size(), kNoClass);
    for (const BankId bank : order) {
        const Footprint &footprint = footprints[bank];
        if (plan.classes.empty() || plan.classes.back().block != footprint.block ||
            footprint.stride * 100 < plan.classes.back().stride * 97) {
            plan.classes.push_back(SlotClass{.block = footprint.block, .stride = footprint.stride});
        }
        plan.class_of_bank[bank] = plan.classes.size() - 1;
        plan.classes.back().useful_slots += banks[bank].expert_count;
    }
}

void count_minimum(const std::vector<LayerNeed> &layers, SlotPlan &plan) {
    std::vector<size_t> pinned(plan.classes.size());
    for (const LayerNeed &layer : layers) {
        std::fill(pinned.begin(), pinned.end(), 0);
        for (BankId bank : layer.banks) {
            pinned[plan.class_of_bank[bank]] += layer.experts_per_token;
        }
        for (size_t c = 0; c < pinned.size(); ++c) {
            plan.classes[c].minimum_slots = std::max(plan.classes[c].minimum_slots, pinned[c]);
        }
    }
    for (SlotClass &slot_class : plan.classes) {
        slot_class.minimum_slots = std::clamp<size_t>(slot_class.minimum_slots, 1, slot_class.useful_slots);
    }
}

/// Shares what the minimum leaves in proportion to the slots each class could still use.
void share_capacity(size_t capacity, SlotPlan &plan) {
    const size_t spare = capacity - plan.minimum_bytes;
    const size_t wanted = plan.useful_bytes - plan.minimum_bytes;
    for (SlotClass &slot_class : plan.classes) {
        const size_t missing = slot_class.useful_slots - slot_class.minimum_slots;
        const double share =
            wanted == 0 ? 1.0 : std::min(1.0, static_cast<double>(spare) / static_cast<double>(wanted));
        slot_class.slots =
            slot_class.minimum_slots + static_cast<size_t>(static_cast<double>(missing) * share);
        plan.arena_bytes += slot_class.slots * slot_class.stride;
    }
    // Rounding down leaves a little in every class; hand it out slot by slot.
    for (SlotClass &slot_class : plan.classes) {
        while (slot_class.slots < slot_class.useful_slots &&
               plan.arena_bytes + slot_class.stride <= capacity) {
            ++slot_class.slots;
            plan.arena_bytes += slot_class.stride;
        }
    }
}

} // namespace

size_t read_block(const Bank &bank, platform::Access access) {
    return access == platform::Access::Direct && bank.file->direct_trusted() ? bank.file->alignment() : 1;
}

size_t slice_footprint(const Bank &bank, size_t block) {
    size_t footprint = 0;
    for (uint32_t expert = 0; expert < bank.expert_count; ++expert) {
        const uint64_t begin = bank.offset + uint64_t{expert} * bank.slice_bytes;
        footprint =
            std::max(footprint, round_up(static_cast<size_t>(begin % block) + bank.slice_bytes, block));
    }
    return footprint;
}

Result<SlotPlan> plan_slots(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers,
                            size_t capacity, platform::Access access) {
    SlotPlan plan;
    std::vector<Footprint> footprints;
    footprints.reserve(banks.size());
    for (const Bank &bank : banks) {
        const size_t block = read_block(bank, access);
        footprints.push_back({block, round_up(slice_footprint(bank, block), std::max(block, kCacheLine))});
    }
    assign_classes(banks, used_banks(banks, layers), footprints, plan);
    count_minimum(layers, plan);
    for (const SlotClass &slot_class : plan.classes) {
        plan.minimum_bytes += slot_class.minimum_slots * slot_class.stride;
        plan.useful_bytes += slot_class.useful_slots * slot_class.stride;
    }
    if (capacity < plan.minimum_bytes) {
        return fail(
            ErrorCode::OutOfMemory,
            fmt::format("an expert cache of {:.1f} MiB is smaller than what one layer needs for one token "
                        "({:.1f} MiB); the minimum for this model is --cache-mb {}",
                        mebibytes(capacity), mebibytes(plan.minimum_bytes),
                        round_up(plan.minimum_bytes, size_t{1} << 20) >> 20));
    }
    share_capacity(capacity, plan);
    return plan;
}

uint64_t token_working_set(const std::vector<Bank> &banks, const std::vector<LayerNeed> &layers) {
    uint64_t bytes = 0;
    for (const LayerNeed &layer : layers) {
        for (BankId bank : layer.banks) {
            bytes += uint64_t{layer.experts_per_token} * banks[bank].slice_bytes;
        }
    }
    return bytes;
}

} // namespace sluice::residency
