// What a probe may claim, what it must leave open, and what is kept of it.
#include "engine/probe.h"

#include "backend/machine_probe.h"
#include "model/gguf_directory.h"
#include "storage/memory_facts.h"
#include "storage/probe_file.h"
#include "storage/read_order.h"
#include "storage/read_probe.h"
#include "support/fault_file.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace sluice::storage {
namespace {

using std::chrono::milliseconds;
using test::ScratchDir;
using testing::HasSubstr;

constexpr uint64_t mebibyte = uint64_t{1} << 20;
const std::vector<int> widths = {1, 2, 4};

/// Files that have no direct reads.
class BufferedFiles final : public IFileSystem {
public:
    Result<std::unique_ptr<IFile>> open(const std::string &path, bool) override {
        return system_files().open(path, false);
    }
};

/// Whether this is an ordinary file system on a device, on a system that tells what comes from there.
bool is_measurable(const std::string &directory) {
    const std::string type = identify_device(directory)->file_system;
    return (type == "ext4" || type == "xfs" || type == "f2fs") && read_process_io().storage_read.has_value();
}

/// Short, since tests look at what is claimed, not at how fast it is.
engine::ProbeOptions quick(const std::string &path) {
    return {.path = path,
            .engine_version = "1.2.3",
            .temporary_bytes = 16 * mebibyte,
            .memory_bytes = 16 * mebibyte,
            .per_rate = milliseconds(2)};
}

/// A file whose bytes are on the device, and nowhere else.
std::unique_ptr<IFile> file_on(const std::string &directory, IFileSystem &files = system_files()) {
    auto file = make_probe_file(directory, {.wanted_bytes = 16 * mebibyte}, files);
    EXPECT_TRUE(file) << file.error().message;
    return file ? std::move(*file) : nullptr;
}

/// Every width has either a rate above 0 or a reason.
void expect_honest(const ReadCurve &curve) {
    for (const ReadRate &rate : curve.rates) {
        EXPECT_NE(rate.mib_per_second.has_value(), !rate.unmeasured.empty()) << rate.width;
        EXPECT_GT(rate.mib_per_second.value_or(1), 0) << rate.width;
    }
}

std::string first_reason(const ReadCurve &curve) {
    return curve.rates.empty() ? "no widths" : curve.rates.front().unmeasured;
}

// -- the order of reads
// -----------------------------------------------------------------------------

TEST(ReadOrder, GivesEveryNumberOnceBeforeAnyAgain) {
    for (const uint64_t count : {1, 2, 3, 4, 7, 64, 1000, 4097}) {
        ReadOrder order(count, 12345 + count);
        for (int round = 0; round < 3; ++round) {
            std::set<uint64_t> seen;
            for (uint64_t i = 0; i < count; ++i) {
                seen.insert(order.next());
            }
            EXPECT_EQ(seen.size(), count);
            EXPECT_LT(*seen.rbegin(), count);
        }
    }
}

TEST(ReadOrder, IsNotTheOrderOfTheFile) {
    ReadOrder order(1024, 99);
    uint64_t last = order.next();
    int neighbours = 0;
    for (int i = 1; i < 1024; ++i) {
        const uint64_t next = order.next();
        neighbours += next == last + 1 ? 1 : 0;
        last = next;
    }
    EXPECT_LT(neighbours, 32);
}

// -- reading
// -----------------------------------------------------------------------------

TEST(ReadProbe, MeasuresWhatComesFromStorage) {
    const ScratchDir dir;
    const auto file = file_on(dir.path());
    ASSERT_NE(file, nullptr);
    if (!file->direct_trusted() || !is_measurable(dir.path())) {
        GTEST_SKIP() << "no storage that can surely be measured here: " << file->direct_refusal();
    }
    ReadProbe probe(*file, {.access = Access::Direct, .per_width = milliseconds(2)});
    const ReadCurve curve = probe.measure(ReadEngineKind::Threads, small_read_bytes, widths);
    ASSERT_EQ(curve.rates.size(), widths.size());
    expect_honest(curve);
    EXPECT_TRUE(curve.rates.front().mib_per_second) << first_reason(curve);
    EXPECT_GT(probe.rounds(), 0);
}

TEST(ReadProbe, EmptiesThePageCacheWhereReadsGoThroughIt) {
    const ScratchDir dir;
    BufferedFiles files;
    const auto file = file_on(dir.path(), files);
    ASSERT_NE(file, nullptr);
    if (!is_measurable(dir.path())) {
        GTEST_SKIP() << "no storage that can surely be measured here";
    }
    std::vector<std::byte> memory(file->size());
    ASSERT_TRUE(read_fully(*file, 0, memory, memory.size(), Access::Buffered, nullptr)); // now it is cached
    ReadProbe probe(*file, {.access = Access::Buffered, .per_width = milliseconds(2)});
    const ReadCurve curve = probe.measure(ReadEngineKind::Threads, small_read_bytes, widths);
    expect_honest(curve);
    EXPECT_TRUE(curve.rates.front().mib_per_second) << first_reason(curve);
}

TEST(ReadProbe, HolesAreNotStorage) {
    const ScratchDir dir;
    const std::string path = dir.write("holes", "");
    std::filesystem::resize_file(path, 16 * mebibyte);
    const auto file = system_files().open(path, true).value();
    for (const Access access : {Access::Direct, Access::Buffered}) {
        ReadProbe probe(*file, {.access = access, .per_width = milliseconds(2)});
        const ReadCurve curve = probe.measure(ReadEngineKind::Threads, small_read_bytes, widths);
        expect_honest(curve);
        EXPECT_FALSE(choose_reading({&curve, 1}, small_read_bytes));
        EXPECT_NE(first_reason(curve), "");
    }
}

TEST(ReadProbe, FailingReadsAreTold) {
    const ScratchDir dir;
    const auto plan = std::make_shared<FaultPlan>();
    FaultFileSystem files{plan};
    const auto file = files.open(dir.write_pattern("file", 4 * mebibyte), false).value();
    plan->add({.and_after = true, .error_number = EIO});
    ReadProbe probe(*file, {.access = Access::Buffered, .per_width = milliseconds(2)});
    const ReadCurve curve = probe.measure(ReadEngineKind::Threads, small_read_bytes, widths);
    expect_honest(curve);
    EXPECT_THAT(first_reason(curve), HasSubstr("Input/output error"));
}

TEST(ReadProbe, DirectReadsThatAreFinishedBufferedDoNotCount) {
    const ScratchDir dir;
    const auto plan = std::make_shared<FaultPlan>();
    FaultFileSystem files{plan};
    const auto file = files.open(dir.write_pattern("file", 4 * mebibyte), true).value();
    if (!file->direct_trusted()) {
        GTEST_SKIP() << file->direct_refusal();
    }
    plan->add({.and_after = true, .only = Access::Direct, .error_number = EINVAL});
    ReadProbe probe(*file, {.access = Access::Direct, .per_width = milliseconds(2)});
    EXPECT_THAT(first_reason(probe.measure(ReadEngineKind::Threads, small_read_bytes, widths)),
                HasSubstr("page cache"));
}

TEST(ReadProbe, WhatDoesNotFitIsUnmeasured) {
    const ScratchDir dir;
    const auto file = system_files().open(dir.write_pattern("file", 100000), false).value();
    ReadProbe probe(*file, {.per_width = milliseconds(2)});
    EXPECT_THAT(first_reason(probe.measure(ReadEngineKind::Threads, mebibyte, widths)), HasSubstr("smaller"));
    EXPECT_THAT(first_reason(probe.measure(ReadEngineKind::Threads, uint64_t{1} << 40, widths)),
                HasSubstr("smaller"));
}

TEST(ReadProbe, StopsWhenToldToAndWhenTimeIsUp) {
    const ScratchDir dir;
    const auto file = system_files().open(dir.write_pattern("file", mebibyte), false).value();
    ReadProbe told(*file, {.keep_going = [] { return false; }});
    EXPECT_EQ(first_reason(told.measure(ReadEngineKind::Threads, small_read_bytes, widths)), "interrupted");
    ReadProbe late(*file, {.deadline = std::chrono::steady_clock::now()});
    EXPECT_EQ(first_reason(late.measure(ReadEngineKind::Threads, small_read_bytes, widths)),
              "no time was left");
}

// -- choosing
// -----------------------------------------------------------------------------

TEST(ChooseReading, TakesTheSmallestWidthThatIsNearlyTheBest) {
    const std::vector<ReadCurve> curves = {
        {ReadEngineKind::Threads, 4096, {{1, 100.0}, {2, 180.0}, {4, 191.0}, {8, 200.0}}},
        {ReadEngineKind::Uring, 4096, {{1, 50.0}, {2, 120.0}, {4, 195.0}, {8, 150.0}}},
        {ReadEngineKind::Uring, 8192, {{1, 900.0}}}};
    EXPECT_EQ(choose_reading(curves, 4096), (ReadChoice{ReadEngineKind::Uring, 4, 195.0}));
    EXPECT_EQ(choose_reading(curves, 8192), (ReadChoice{ReadEngineKind::Uring, 1, 900.0}));
}

TEST(ChooseReading, HasNoOpinionWithoutNumbers) {
    const std::vector<ReadCurve> curves = {{ReadEngineKind::Threads, 4096, {{1, {}, "no"}, {2, {}, "no"}}}};
    EXPECT_FALSE(choose_reading(curves, 4096));
    EXPECT_FALSE(choose_reading({}, 4096));
}

// -- the temporary file
// -----------------------------------------------------------------------------

TEST(ProbeFile, HasNoNameAndTheSizeAskedFor) {
    const ScratchDir dir;
    const auto file = file_on(dir.path());
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->size(), 16 * mebibyte);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    std::vector<std::byte> memory(file->size());
    EXPECT_TRUE(read_fully(*file, 0, memory, memory.size(), Access::Buffered, nullptr));
    EXPECT_GT(std::ranges::count_if(memory, [](std::byte value) { return value != std::byte{0}; }),
              static_cast<long>(memory.size() / 2));
}

TEST(ProbeFile, CancelledWritingLeavesNothing) {
    const ScratchDir dir;
    int asked = 0;
    const auto file = make_probe_file(
        dir.path(), {.wanted_bytes = 64 * mebibyte, .keep_going = [&] { return ++asked < 3; }},
        system_files());
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::Cancelled);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(ProbeFile, ImpatienceMakesItSmaller) {
    const ScratchDir dir;
    const auto file = make_probe_file(
        dir.path(), {.wanted_bytes = 64 * mebibyte, .patience = milliseconds(0)}, system_files());
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->size(), 16 * mebibyte);
}

TEST(ProbeFile, DirectoryThatCannotTakeItIsNamed) {
    const auto missing = make_probe_file("/nonexistent/here", {}, system_files());
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    const ScratchDir dir;
    const auto tiny = make_probe_file(dir.path(), {.wanted_bytes = mebibyte}, system_files());
    ASSERT_FALSE(tiny);
    EXPECT_THAT(tiny.error().message, HasSubstr(dir.path()));
}

// -- a whole probe
// -----------------------------------------------------------------------------

TEST(Probe, ClaimsOnlyWhatItMeasured) {
    const ScratchDir dir;
    const auto result = engine::run_probe(quick(dir.path()));
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->curves.size(), 4u);
    for (const ReadCurve &curve : result->curves) {
        expect_honest(curve);
    }
    EXPECT_EQ(result->slice_bytes, mebibyte);
    EXPECT_EQ(result->engine_version, "1.2.3");
    EXPECT_EQ(result->device, identify_device(dir.path()).value());
    EXPECT_EQ(result->slices, choose_reading(result->curves, mebibyte));
    EXPECT_EQ(result->machine.cores, physical_cores());
    EXPECT_TRUE(result->machine.compute_all_cores) << result->machine.unmeasured;
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Probe, ReadsSlicesOfTheModelsLargestBank) {
    const std::string path = test::tiny_model("tiny-qwen3moe");
    const auto directory = model::GgufDirectory::open(path, false, system_files()).value();
    const uint64_t experts = directory->header_integer("{arch}.expert_count").value();
    uint64_t largest = 0;
    for (const model::TensorEntry &entry : directory->tensors()) {
        largest =
            std::max(largest, entry.shape[2] == static_cast<int64_t>(experts) ? entry.bytes / experts : 0);
    }
    const auto result = engine::run_probe(quick(path));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->slice_bytes, largest);
}

TEST(Probe, OtherFilesAreReadInSlicesOfOneMebibyte) {
    const ScratchDir dir;
    const auto result = engine::run_probe(quick(dir.write_pattern("file", 4 * mebibyte)));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->slice_bytes, mebibyte);
    EXPECT_THAT(result->notes, testing::Contains(HasSubstr("is not a GGUF file")));
}

TEST(Probe, FilesInMemoryHaveNoStorage) {
    const auto device = identify_device("/dev/shm");
    if (!device || !device->in_memory()) {
        GTEST_SKIP() << "/dev/shm is not in memory here";
    }
    const ScratchDir dir("/dev/shm");
    const auto result = engine::run_probe(quick(dir.path()));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_FALSE(result->slices);
    EXPECT_FALSE(result->small);
    for (const ReadCurve &curve : result->curves) {
        EXPECT_THAT(first_reason(curve), HasSubstr("keeps files in memory"));
    }
}

TEST(Probe, BadPathsAreNamed) {
    const auto missing = engine::run_probe(quick("/nonexistent/here"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    const auto device = engine::run_probe(quick("/dev/null"));
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::InvalidFormat);
    EXPECT_THAT(device.error().message, HasSubstr("/dev/null"));
}

TEST(Probe, CanBeCancelledAtAnyPoint) {
    const ScratchDir dir;
    for (int point = 1; point < 60; point += 9) {
        int asked = 0;
        engine::ProbeOptions options = quick(dir.path());
        options.progress = [&](const std::string &, double) { return ++asked < point; };
        const auto result = engine::run_probe(options);
        if (asked >= point) {
            ASSERT_FALSE(result);
            EXPECT_EQ(result.error().code, ErrorCode::Cancelled);
        }
        EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
    }
}

TEST(MachineProbe, TooLittleMemoryIsUnmeasured) {
    const MachineRates rates = backend::measure_machine({.cores = 2, .bytes = 1000});
    EXPECT_FALSE(rates.memory_one_core);
    EXPECT_NE(rates.unmeasured, "");
}

} // namespace
} // namespace sluice::storage
