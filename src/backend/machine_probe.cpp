#include "backend/machine_probe.h"

#include "storage/reserved_memory.h"

#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

namespace sluice::backend {

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<const std::byte>;

constexpr int64_t kRowElements = 4096; ///< a usual width of a model
/// Work between two looks at the clock.
constexpr size_t kRowsPerPiece = 128;

/// A row of weights and an activation that ggml's kernel multiplies: ordinary numbers, since infinite or tiny
/// ones could take another time.
struct Operands {
    std::vector<std::byte> row;
    std::vector<std::byte> activation;

    Operands() {
        ggml_cpu_init();
        std::vector<float> values(kRowElements);
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = std::sin(static_cast<float>(i) * 0.7F);
        }
        row.resize(ggml_row_size(GGML_TYPE_Q4_K, kRowElements));
        ggml_get_type_traits(GGML_TYPE_Q4_K)->from_float_ref(values.data(), row.data(), kRowElements);
        const ggml_type type = ggml_get_type_traits_cpu(GGML_TYPE_Q4_K)->vec_dot_type;
        activation.resize(ggml_row_size(type, kRowElements));
        ggml_get_type_traits_cpu(type)->from_float(values.data(), activation.data(), kRowElements);
    }
};

/// Keeps results alive, so that computing them isn't left out.
void consume(uint64_t value) {
    static std::atomic<uint64_t> sink;
    sink.fetch_xor(value, std::memory_order_relaxed);
}

/// Compilers turn this plain loop into one that waits for nothing but memory.
void read_memory(Bytes bytes) {
    uint64_t sum = 0;
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof(word));
        sum += word;
    }
    consume(sum);
}

void multiply(const Operands &operands, Bytes rows) {
    const ggml_vec_dot_t vec_dot = ggml_get_type_traits_cpu(GGML_TYPE_Q4_K)->vec_dot;
    float sum = 0;
    for (; !rows.empty(); rows = rows.subspan(operands.row.size())) {
        float product = 0;
        vec_dot(static_cast<int>(kRowElements), &product, 0, rows.data(), 0, operands.activation.data(), 0,
                1);
        sum += product;
    }
    consume(static_cast<uint64_t>(std::isfinite(sum) ? sum : 0));
}

/// Runs `work` on pieces of `memory`, each thread on a part of its own, for `duration`. GB/s of all threads.
template <typename Work>
std::optional<double> rate(Bytes memory, size_t piece, int threads, std::chrono::milliseconds duration,
                           const Work &work) {
    const size_t pieces = memory.size() / piece / static_cast<size_t>(threads);
    if (pieces == 0) {
        return std::nullopt;
    }
    std::barrier start(threads);
    std::vector<double> rates(static_cast<size_t>(threads));
    const auto run = [&](size_t thread) {
        const Bytes part = memory.subspan(thread * pieces * piece, pieces * piece);
        start.arrive_and_wait();
        const Clock::time_point begin = Clock::now();
        Clock::time_point now = begin;
        size_t done = 0;
        for (; now < begin + duration; now = Clock::now(), ++done) {
            work(part.subspan(done % pieces * piece, piece));
        }
        const double seconds = std::chrono::duration<double>(now - begin).count();
        rates[thread] = static_cast<double>(done * piece) / seconds / 1e9;
    };
    std::vector<std::jthread> others;
    try {
        others.reserve(rates.size());
        for (size_t thread = 1; thread < rates.size(); ++thread) {
            others.emplace_back(run, thread);
        }
    } catch (const std::system_error &) {
        for (size_t missing = others.size() + 1; missing < rates.size(); ++missing) {
            start.arrive_and_drop(); // lets those that were started end
        }
        start.arrive_and_drop();
        return std::nullopt;
    }
    run(0);
    others.clear();
    double sum = 0;
    for (const double each : rates) {
        sum += each;
    }
    return sum;
}

} // namespace

storage::MachineRates measure_machine(const MachineProbeOptions &options) {
    storage::MachineRates rates = {.cores = options.cores};
    const Operands operands;
    const size_t row = operands.row.size();
    const size_t piece = kRowsPerPiece * row;
    const size_t size = options.bytes / row * row;
    auto memory = storage::ReservedMemory::reserve(size, storage::MemoryUse::Arena);
    if (!memory || size < piece * static_cast<size_t>(options.cores)) {
        rates.unmeasured = memory
                               ? fmt::format("{} bytes of memory are too few to measure with", options.bytes)
                               : memory.error().message;
        return rates;
    }
    for (size_t at = 0; at < size; at += row) {
        std::memcpy(memory->bytes().data() + at, operands.row.data(), row);
    }
    const Bytes weights = memory->bytes().first(size);
    const auto measure = [&](int threads, const auto &work) -> std::optional<double> {
        if (options.keep_going && !options.keep_going()) {
            rates.unmeasured = "interrupted";
            return std::nullopt;
        }
        const std::optional<double> found = rate(weights, piece, threads, options.per_rate, work);
        if (!found) {
            rates.unmeasured = fmt::format("{} threads could not be started", threads);
        }
        return found;
    };
    const auto product = [&operands](Bytes rows) { multiply(operands, rows); };
    rates.memory_one_core = measure(1, read_memory);
    rates.memory_all_cores = options.cores == 1 ? rates.memory_one_core : measure(options.cores, read_memory);
    rates.compute_one_core = measure(1, product);
    rates.compute_all_cores = options.cores == 1 ? rates.compute_one_core : measure(options.cores, product);
    return rates;
}

} // namespace sluice::backend
