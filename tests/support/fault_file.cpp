#include "support/fault_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <thread>

namespace sluice::platform {
namespace {

constexpr std::byte rubbish{0xDB};

bool matches(const Fault &fault, const std::string &path, uint64_t offset, Access access) {
    return offset >= fault.from_offset && (!fault.only || *fault.only == access) &&
           path.find(fault.path_contains) != std::string::npos;
}

} // namespace

void FaultPlan::add(Fault fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back({std::move(fault), 0});
}

void FaultPlan::clear() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
    map_error_number_ = 0;
}

void FaultPlan::fail_maps(int error_number) {
    const std::lock_guard lock(mutex_);
    map_error_number_ = error_number;
}

FaultPlan::Counts FaultPlan::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

Fault FaultPlan::strike(const std::string &path, uint64_t offset, Access access) {
    const std::lock_guard lock(mutex_);
    ++counts_.reads;
    counts_.direct_reads += access == Access::Direct ? 1 : 0;
    Fault merged;
    bool struck = false;
    for (Armed &armed : faults_) {
        const Fault &fault = armed.fault;
        if (!matches(fault, path, offset, access)) {
            continue;
        }
        ++armed.seen;
        if (fault.and_after ? armed.seen < fault.nth : armed.seen != fault.nth) {
            continue;
        }
        struck = true;
        merged.short_by = std::max(merged.short_by, fault.short_by);
        merged.no_progress = merged.no_progress || fault.no_progress;
        merged.error_number = merged.error_number != 0 ? merged.error_number : fault.error_number;
        merged.delay += fault.delay;
    }
    counts_.struck += struck ? 1 : 0;
    return merged;
}

void FaultPlan::count_bytes(size_t bytes) {
    const std::lock_guard lock(mutex_);
    counts_.bytes += bytes;
}

void FaultPlan::count_open() {
    const std::lock_guard lock(mutex_);
    ++counts_.opened;
}

int FaultPlan::strike_map() {
    const std::lock_guard lock(mutex_);
    ++counts_.maps;
    return map_error_number_;
}

Result<size_t> FaultFile::read_at(uint64_t offset, std::span<std::byte> into, Access access) {
    const Fault fate = plan_->strike(path(), offset, access);
    if (fate.delay.count() > 0) {
        std::this_thread::sleep_for(fate.delay);
    }
    if (fate.error_number != 0) {
        // Worded as the real file system does.
        return fail(ErrorCode::Io, fmt::format("cannot read {} at offset {}: {}", path(), offset,
                                               std::generic_category().message(fate.error_number)));
    }
    if (fate.no_progress) {
        return size_t{0};
    }
    // Read in full and cut afterwards: a shorter direct read would not be aligned.
    Result<size_t> got = inner_->read_at(offset, into, access);
    if (!got) {
        return got;
    }
    const size_t arrived = *got - std::min(*got, fate.short_by);
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(arrived),
              into.begin() + static_cast<std::ptrdiff_t>(*got), rubbish);
    plan_->count_bytes(arrived);
    return arrived;
}

Status FaultFile::map_over(uint64_t offset, std::span<std::byte> where, MapAdvice advice) {
    if (const int number = plan_->strike_map(); number != 0) {
        return fail(number == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::Io,
                    fmt::format("cannot map {} bytes of {} at offset {}: {}", where.size(), path(), offset,
                                std::generic_category().message(number)));
    }
    return inner_->map_over(offset, where, advice);
}

Result<std::unique_ptr<IFile>> FaultFileSystem::open(const std::string &path, bool want_direct) {
    Result<std::unique_ptr<IFile>> inner = inner_.open(path, want_direct);
    if (!inner) {
        return inner;
    }
    plan_->count_open();
    return std::make_unique<FaultFile>(std::move(*inner), plan_);
}

} // namespace sluice::platform
