// What the device gives to somebody who only reads: random slices of a model, several in flight, into memory
// like the expert cache's. Each depth reads the same slices, and they were all read before, as those of a
// benchmark's second pass were. Prints one JSON object; "mib_per_s" is the best depth's, "cpu_ms_per_mib" the
// processor time that goes with it.
//
//   device_rate MODEL SLICE_KIB

#include "platform/file.h"
#include "platform/reserved_memory.h"
#include "read_order.h"
#include "storage/read_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;

constexpr size_t kMemory = size_t{256} << 20U; ///< read into, again and again
constexpr size_t kTotal = size_t{1} << 30U;    ///< read by each pass
constexpr int kDepths[] = {4, 8};

template <typename T>
T value_or_throw(Result<T> result) {
    if (!result) {
        throw std::runtime_error(result.error().message);
    }
    return std::move(*result);
}

/// Processor time of this process and of the kernel on its behalf.
double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Rate {
    double mib_per_s = 0;
    double cpu_ms_per_mib = 0; ///< processor time
};

/// One pass over the same slices.
Rate read_pass(platform::IFile &file, size_t slice, int depth, std::span<std::byte> memory) {
    auto engine = value_or_throw(storage::make_read_engine({.depth = depth, .lanes = depth})).engine;
    storage::ReadOrder order(file.size() / slice, 1);
    const size_t slots = memory.size() / slice;
    const size_t count = std::max<size_t>(1, std::min<uint64_t>(kTotal / slice, order.count()));
    std::atomic<bool> failed{false};
    const double cpu_before = processor_seconds();
    const auto start = Clock::now();
    for (size_t done = 0; done < count; done += slots) {
        const size_t batch = std::min(slots, count - done);
        std::latch arrived(static_cast<std::ptrdiff_t>(batch));
        std::vector<storage::ReadRequest> requests;
        for (size_t i = 0; i < batch; ++i) {
            requests.push_back({.file = &file,
                                .offset = order.next() * slice,
                                .into = memory.subspan(i * slice, slice),
                                .needed = slice,
                                .access = platform::Access::Direct,
                                .done = [&](const Status &status) {
                                    failed = failed || !status;
                                    arrived.count_down();
                                }});
        }
        engine->submit(requests);
        arrived.wait();
    }
    if (failed) {
        throw std::runtime_error("a read of " + file.path() + " failed");
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double mebibytes = static_cast<double>(count * slice) / 1048576.0;
    return {.mib_per_s = mebibytes / seconds,
            .cpu_ms_per_mib = (processor_seconds() - cpu_before) * 1e3 / mebibytes};
}

nlohmann::json measure(const std::string &path, size_t slice_kib) {
    const auto file = value_or_throw(platform::system_files().open(path, true));
    if (!file->direct_trusted()) { // the page cache is no device
        throw std::runtime_error(file->direct_refusal());
    }
    const size_t block = std::max<size_t>(file->alignment(), platform::page_size());
    const size_t slice = ((slice_kib << 10U) + block - 1) / block * block;
    if (slice == 0 || slice > kMemory || slice > file->size()) {
        throw std::runtime_error("slices of that size cannot be read from " + path);
    }
    const auto memory =
        value_or_throw(platform::ReservedMemory::reserve(kMemory, platform::MemoryUse::Arena));
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{1}); // page faults are not the device's
    nlohmann::json depths;
    Rate best;
    read_pass(*file, slice, kDepths[0], memory.bytes());
    for (const int depth : kDepths) {
        const Rate rate = read_pass(*file, slice, depth, memory.bytes());
        depths[std::to_string(depth)] = rate.mib_per_s;
        best = rate.mib_per_s > best.mib_per_s ? rate : best;
    }
    return {{"mib_per_s", best.mib_per_s}, {"cpu_ms_per_mib", best.cpu_ms_per_mib}, {"by_depth", depths}};
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: device_rate MODEL SLICE_KIB\n");
        return 2;
    }
    try {
        std::printf("%s\n", measure(argv[1], std::strtoull(argv[2], nullptr, 10)).dump().c_str());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "device_rate: %s\n", error.what());
        return 1;
    }
    return 0;
}
