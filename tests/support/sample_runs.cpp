#include "support/sample_runs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <random>
#include <set>

namespace sluice::test {

namespace {

constexpr int kLayers = 48;
constexpr int kSlicesPerToken = kLayers * 8 * 3;
constexpr double kSliceBytes = 1.0 * 1024 * 1024;

/// Numbers from 0 to 1; the same everywhere, which the standard's distributions are not.
class Chance {
public:
    explicit Chance(uint32_t seed) : generator_(seed) {}
    double next() { return static_cast<double>(generator_()) / 4294967296.0; }
    /// About 1, with a longer tail above.
    double factor(double spread) { return std::exp(spread * (next() + next() - 1)); }

private:
    std::mt19937 generator_;
};

std::vector<std::pair<std::string, std::string>> usual_config() {
    return {{"version", "0.1.0"},
            {"model", "sample-30b-a3b (made-up numbers)"},
            {"architecture", "qwen3moe"},
            {"quantisation", "Q4_K_M"},
            {"file_bytes", "18556686912"},
            {"mode", "streaming experts"},
            {"cache_MiB", "2000"},
            {"policy", "next-use"},
            {"io_engine", "threads"},
            {"io_threads", "4"},
            {"direct", "yes"},
            {"repack", "yes"},
            {"dense_weights", "anon"},
            {"row_stream", "no"},
            {"ctx_size", "4096"},
            {"ubatch_size", "512"},
            {"threads", "2"},
            {"sampler", "temp 0.8, top-k 40, top-p 0.95, min-p 0.05, repeat penalty 1.1"},
            {"instrumented", "no"},
            {"lossy", "no"},
            {"started", "2026-01-31T12:00:00Z"},
            {"cpu", "Sample CPU, 2 cores"},
            {"memory_MiB", "4096"},
            {"flags", "--moe-stream -n 200 -t 2"}};
}

std::string preamble(const SampleRun &run) {
    auto config = usual_config();
    for (const auto &[key, value] : run.config) {
        const auto same = std::find_if(config.begin(), config.end(),
                                       [&name = key](const auto &entry) { return entry.first == name; });
        if (same != config.end()) {
            same->second = value;
        } else {
            config.emplace_back(key, value);
        }
    }
    std::string text = "# sluice 0.1.0\n";
    for (const auto &[key, value] : config) {
        text += fmt::format("# {}: {}\n", key, value);
    }
    return text +
           "token,phase,batch_tokens,wall_ms,compute_ms,expert_wait_ms,row_wait_ms,cache_ms,sampling_ms,"
           "other_ms,expert_reads,expert_read_bytes,row_reads,row_read_bytes,speculative_reads,"
           "speculative_read_bytes,hits,misses,evictions,major_faults,minor_faults,swap_ins,cpu_ms,"
           "device_busy_ms,device_mib_per_s,resident_mib\n";
}

/// One row: a ubatch of the prompt (`batch` > 1) or a token. `warm` goes from 0 to 1 while the cache fills.
std::string row(const SampleRun &run, Chance &chance, int index, int batch, double warm, double &resident) {
    const bool prefill = batch > 1;
    const double asked = prefill ? kLayers * 110 * 3 : kSlicesPerToken;
    const double hit_rate = std::clamp(run.hit_rate * warm * chance.factor(0.08), 0.0, 1.0);
    const auto hits = static_cast<uint64_t>(asked * hit_rate);
    const uint64_t misses = static_cast<uint64_t>(asked) - hits;
    const auto speculative =
        run.speculative ? static_cast<uint64_t>(0.2 * static_cast<double>(misses)) : uint64_t{0};
    const double compute = run.compute_ms * chance.factor(0.1) * (prefill ? 0.12 * batch : 1);
    const double wait = 0.35 * static_cast<double>(misses) * chance.factor(0.3);
    const uint64_t rows = run.rows ? static_cast<uint64_t>(20 * chance.factor(0.5)) : 0;
    const double row_wait = 0.4 * static_cast<double>(rows);
    const double cache = 1.2 * chance.factor(0.2);
    const double sampling = prefill ? 0 : 0.8 * chance.factor(0.3);
    const double other = 0.5 * chance.factor(0.4);
    const double wall = compute + wait + row_wait + cache + sampling + other;
    resident = std::max(resident, 322 + run.resident_mib * warm * warm) + 0.02 * chance.next();
    std::string text = fmt::format(
        "{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{:.0f},{},{},{},{:.0f},{},{},{},",
        index, prefill ? "prefill" : "decode", batch, wall, compute, wait, row_wait, cache, sampling, other,
        misses, static_cast<double>(misses) * kSliceBytes, rows, rows * 16384, speculative,
        static_cast<double>(speculative) * kSliceBytes, hits, misses, warm < 1 ? 0 : misses);
    text += run.cpu_measured ? fmt::format("0,12,0,{:.3f},{:.3f},{:.1f},", 1.9 * compute, 0.9 * wait, 780.0)
                             : ",,,,,,";
    return text + fmt::format("{:.1f}\n", resident);
}

/// An expert at random, those with low ranks more often.
uint32_t pick(Chance &chance, uint32_t experts) {
    return std::min(experts - 1, static_cast<uint32_t>(experts * std::pow(chance.next(), 7)));
}

/// Which expert of a layer is the most liked one, the second, and so on.
std::vector<uint32_t> ranking(Chance &chance, uint32_t experts) {
    std::vector<uint32_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i = experts; i > 1; --i) {
        std::swap(order[i - 1], order[static_cast<uint32_t>(i * chance.next())]);
    }
    return order;
}

} // namespace

std::string sample_csv(const SampleRun &run) {
    Chance chance(run.seed);
    std::string text = preamble(run);
    double resident = 300;
    int index = 0;
    if (run.prompt_tokens > 0) {
        text += row(run, chance, index++, std::max(2, run.prompt_tokens), 0.2, resident);
    }
    for (int token = 0; token < run.tokens; ++token) {
        const double warm = std::min(1.0, 0.35 + 0.65 * token / 24.0);
        // Somewhere in the text another subject begins, and with it other experts.
        const bool turn = token > run.tokens / 2 && token < run.tokens / 2 + 9;
        text += row(run, chance, index++, 1, turn ? 0.6 * warm : warm, resident);
    }
    if (!run.end) {
        return text + "99,decode,1,12"; // killed while it wrote
    }
    return text + fmt::format("# summary\n# tokens: {}\n# peak_resident_MiB: {:.1f}\n# end: {}\n", run.tokens,
                              resident + 4, *run.end);
}

std::string sample_trace(uint32_t layers, uint32_t experts, uint32_t per_token, int tokens) {
    Chance chance(7);
    std::string text = fmt::format("{} {}\n", layers, experts);
    std::vector<std::vector<uint32_t>> rankings(layers);
    for (std::vector<uint32_t> &order : rankings) {
        order = ranking(chance, experts);
    }
    std::vector<std::set<uint32_t>> last(layers);
    for (int token = -1; token < tokens; ++token) {
        const bool prompt = token < 0;
        for (uint32_t layer = 0; layer < layers && token == tokens * 3 / 5; layer += 2) {
            rankings[layer] = ranking(chance, experts); // another subject, which half of the layers note
        }
        for (uint32_t layer = 0; layer < layers; ++layer) {
            std::set<uint32_t> used;
            for (const uint32_t expert : last[layer]) {
                if (used.size() < per_token && chance.next() < 0.35) {
                    used.insert(expert);
                }
            }
            while (used.size() < (prompt ? experts / 2 : per_token)) {
                used.insert(rankings[layer][pick(chance, experts)]);
            }
            text += fmt::format("{} {}", prompt ? 0 : 1, layer);
            for (const uint32_t expert : used) {
                text += fmt::format(" {}", expert);
            }
            text += '\n';
            last[layer] = prompt ? std::set<uint32_t>() : used;
        }
    }
    return text;
}

} // namespace sluice::test
