#include "engine/probe.h"

#include "backend/machine_probe.h"
#include "engine/llama_log.h"
#include "model/gguf_directory.h"
#include "storage/memory_facts.h"
#include "storage/probe_file.h"
#include "storage/read_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>

namespace sluice::engine {

namespace {

using storage::Access;
using storage::ProbeResult;
using storage::ReadEngineKind;

constexpr uint64_t kUsualSlice = uint64_t{1} << 20;
/// Expert slices are large: what does not saturate a device with 16 at once never will.
constexpr std::array kSliceWidths = {1, 2, 4, 8, 16};
constexpr std::array kSmallWidths = {1, 2, 4, 8, 16, 32, 64};
/// Memory to compute on: all caches are smaller on most machines, and this is what the machine must have
/// spare.
constexpr uint64_t kMemoryBytes = uint64_t{512} << 20;
constexpr uint64_t kShareOfMemory = 8;

/// Where slices are read from.
struct Target {
    std::unique_ptr<storage::IFile> file;
    uint64_t slice_bytes = kUsualSlice;
    bool temporary = false;
};

/// One probe under way.
class Probe {
public:
    Probe(const ProbeOptions &options, storage::IFileSystem &files)
        : options_(options), files_(files), deadline_(std::chrono::steady_clock::now() + options.time_limit) {
    }

    Result<ProbeResult> run() {
        auto device = storage::identify_device(options_.path);
        if (!device) {
            return fail(device.error());
        }
        std::error_code unknown;
        if (!std::filesystem::is_directory(options_.path, unknown) &&
            !std::filesystem::is_regular_file(options_.path, unknown)) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} is neither a file nor a directory", options_.path));
        }
        result_.device = std::move(*device);
        result_.engine_version = options_.engine_version;
        result_.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
        result_.slice_bytes = kUsualSlice;
        if (Status measured = measure_storage(); !measured) {
            return fail(measured.error());
        }
        measure_machine();
        if (!going_) {
            return fail(ErrorCode::Cancelled, "interrupted: nothing was measured whole");
        }
        return std::move(result_);
    }

private:
    bool keep_going() {
        going_ = going_ && (!options_.progress || options_.progress(what_, done_));
        return going_;
    }

    Result<Target> make_target();
    Result<Target> open_file();
    Status measure_storage();
    void measure_machine();
    void note_conditions(const Target &target, const storage::ReadProbe &reads);

    const ProbeOptions &options_;
    storage::IFileSystem &files_;
    std::chrono::steady_clock::time_point deadline_;
    ProbeResult result_;
    std::string what_ = "preparing";
    double done_ = 0;
    bool going_ = true;
};

/// One expert's share of the model's largest bank: three dimensions, the outermost as long as the header
/// counts experts. 0 if there is none.
const model::TensorEntry *largest_bank(const model::GgufDirectory &directory) {
    const uint64_t experts = directory.header_integer("{arch}.expert_count").value_or(0);
    const model::TensorEntry *largest = nullptr;
    for (const model::TensorEntry &entry : directory.tensors()) {
        const bool bank =
            experts > 1 && entry.shape[2] == static_cast<int64_t>(experts) && entry.shape[3] == 1;
        if (bank && (largest == nullptr || entry.bytes > largest->bytes)) {
            largest = &entry;
        }
    }
    return largest;
}

/// The file itself, or the shard of the model that holds the largest bank.
Result<Target> Probe::open_file() {
    Target target;
    std::string path = options_.path;
    auto directory = model::GgufDirectory::open(path, false, files_);
    if (!directory) {
        result_.notes.push_back(fmt::format("slices are taken to be 1 MiB: {}", directory.error().message));
    } else if (const model::TensorEntry *bank = largest_bank(**directory)) {
        target.slice_bytes = bank->bytes / static_cast<uint64_t>(bank->shape[2]);
        path = (*directory)->shard_paths()[bank->shard];
    } else {
        result_.notes.push_back(fmt::format("slices are taken to be 1 MiB: {} has no experts", path));
    }
    auto file = files_.open(path, true);
    if (!file) {
        return fail(file.error());
    }
    target.file = std::move(*file);
    return target;
}

Result<Target> Probe::make_target() {
    std::error_code unknown;
    if (!std::filesystem::is_directory(options_.path, unknown)) {
        return open_file();
    }
    Target target;
    target.temporary = true;
    what_ = "writing";
    auto file = storage::make_probe_file(
        options_.path,
        {.wanted_bytes = options_.temporary_bytes, .keep_going = [this] { return keep_going(); }}, files_);
    if (!file) {
        return fail(file.error());
    }
    target.file = std::move(*file);
    return target;
}

/// Every width of every curve, with the same reason for having no number.
void add_unmeasured(ProbeResult &result, const std::string &why) {
    const auto add = [&](ReadEngineKind engine, uint64_t bytes, const auto &widths) {
        storage::ReadCurve curve = {.engine = engine, .read_bytes = bytes};
        for (const int width : widths) {
            curve.rates.push_back({.width = width, .mib_per_second = {}, .unmeasured = why});
        }
        result.curves.push_back(std::move(curve));
    };
    add(ReadEngineKind::Threads, result.slice_bytes, kSliceWidths);
    add(ReadEngineKind::Uring, result.slice_bytes, kSliceWidths);
    add(ReadEngineKind::Threads, storage::small_read_bytes, kSmallWidths);
    add(ReadEngineKind::Uring, storage::small_read_bytes, kSmallWidths);
}

Status Probe::measure_storage() {
    if (result_.device.in_memory()) {
        add_unmeasured(result_, fmt::format("{} keeps files in memory, so there is no storage to measure",
                                            result_.device.file_system));
        return {};
    }
    Result<Target> target = make_target();
    if (!target) {
        return fail(target.error());
    }
    storage::IFile &file = *target->file;
    result_.direct = file.direct_trusted();
    result_.slice_bytes = target->slice_bytes;
    storage::ReadProbe reads(file, {.access = result_.direct ? Access::Direct : Access::Buffered,
                                    .per_width = options_.per_rate,
                                    .deadline = deadline_,
                                    .keep_going = [this] { return keep_going(); }});
    what_ = "reading";
    const auto add = [&](ReadEngineKind engine, uint64_t bytes, std::span<const int> widths, double done) {
        result_.curves.push_back(reads.measure(engine, bytes, widths));
        done_ = done;
    };
    add(ReadEngineKind::Threads, result_.slice_bytes, kSliceWidths, 0.2);
    add(ReadEngineKind::Uring, result_.slice_bytes, kSliceWidths, 0.4);
    add(ReadEngineKind::Threads, storage::small_read_bytes, kSmallWidths, 0.6);
    add(ReadEngineKind::Uring, storage::small_read_bytes, kSmallWidths, 0.8);
    result_.slices = storage::choose_reading(result_.curves, result_.slice_bytes);
    result_.small = storage::choose_reading(result_.curves, storage::small_read_bytes);
    note_conditions(*target, reads);
    return {};
}

void Probe::note_conditions(const Target &target, const storage::ReadProbe &reads) {
    if (!result_.direct) {
        std::string why = target.file->direct_refusal();
        if (const size_t at = why.find(target.file->path()); target.temporary && at != std::string::npos) {
            why.replace(at, target.file->path().size(),
                        "the temporary file"); // its path means nothing to people
        }
        result_.notes.push_back(
            fmt::format("reads went through the page cache, emptied before each measurement: {}", why));
    }
    if (target.temporary && target.file->size() < options_.temporary_bytes) {
        result_.notes.push_back(
            fmt::format("the temporary file had {} MiB instead of {}: the disk is short or slow",
                        target.file->size() >> 20, options_.temporary_bytes >> 20));
    }
    if (reads.rounds() > 1 && (result_.slices || result_.small)) {
        result_.notes.push_back(
            fmt::format("the file of {} MiB was read up to {:.1f} times over, so a device with a "
                        "cache may look faster than it is",
                        target.file->size() >> 20, reads.rounds()));
    }
}

void Probe::measure_machine() {
    what_ = "computing";
    const auto usable = storage::usable_memory(storage::read_memory_facts());
    result_.machine = backend::measure_machine(
        {.cores = storage::physical_cores(),
         .bytes = std::min(options_.memory_bytes, usable.value_or(UINT64_MAX) / kShareOfMemory),
         .per_rate = options_.per_rate,
         .keep_going = [this] { return keep_going(); }});
}

} // namespace

Result<ProbeResult> run_probe(const ProbeOptions &options, storage::IFileSystem &files) {
    capture_llama_log(); // a damaged header is told in a note, once
    return Probe(options, files).run();
}

} // namespace sluice::engine
