// Runs variants of a decode benchmark in turn, several rounds, and prints medians, spread and ratios.
// The first variant is the one the others are divided by.

#include "compare_bound.h"
#include "compare_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using sluice::bench::Bound;
using sluice::bench::Measured;

struct Options {
    std::string model;
    int threads = 2;
    int prompt = 16;
    int tokens = 32;
    int rounds = 3;
    std::vector<std::string> variants;
    uint64_t ceiling_mib = 0;   ///< 0: none
    uint64_t read_mb_per_s = 0; ///< the same
    double cpus = 0;            ///< processors' worth of time that a run may take; 0: all
    int busy = 0;               ///< processes beside each variant that compute without end
    bool bound = false;
    uint64_t slice_kib =
        864; ///< of reads that measure the device: a matrix of an expert of Qwen3-30B-A3B in q4_K
    std::string json;
};

/// The part of `text` after `prefix`, if it begins with it.
std::optional<std::string> after(const std::string &text, const std::string &prefix) {
    return text.rfind(prefix, 0) == 0 ? std::optional(text.substr(prefix.size())) : std::nullopt;
}

/// Stock with ggml's barriers as Sluice has them: for comparing all but the barriers.
constexpr const char *kSleeping = "+sleep";

/// A variant is "stock-resident", "stock-mmap" or "sluice-<cache MiB>", then "-norepack" or "-plain" (stock
/// only) for the weights' layout, then (stock) "+sleep" or (Sluice) what sluice_decode knows with a "+"
/// before it, then "@free" to run without limits.
std::string command_of(const std::string &variant, const Options &options, const std::string &folder) {
    std::string name = variant.substr(0, variant.find('@'));
    std::string layout = "repack";
    const size_t plus = std::min(name.find('+'), name.size());
    const std::string extras = name.substr(plus);
    name.erase(plus);
    for (const auto &[suffix, meaning] :
         {std::pair{"-norepack", "no-repack"}, std::pair{"-plain", "plain-experts"}}) {
        if (const size_t at = name.find(suffix); at != std::string::npos) {
            name.erase(at, std::string(suffix).size());
            layout = meaning;
        }
    }
    const std::string tail =
        fmt::format("{} {} {} {}", options.threads, options.prompt, options.tokens, layout);
    if ((extras.empty() || extras == kSleeping) && (name == "stock-resident" || name == "stock-mmap")) {
        const char *mode = name == "stock-mmap" ? "mmap" : "none";
        return fmt::format("{}'{}/stock_decode' '{}' {} {}", extras.empty() ? "" : "env GOMP_SPINCOUNT=1000 ",
                           folder, options.model, mode, tail);
    }
    const auto cache = after(name, "sluice-");
    if (cache && layout != "plain-experts") {
        return fmt::format("'{}/sluice_decode' '{}' {} {}", folder, options.model, *cache, tail + extras);
    }
    throw CLI::ValidationError("--variant", "'" + variant + "' is not one");
}

/// Processes that compute without end, for as long as this lives: other programs of a machine that is in use.
class BusyNeighbours {
public:
    explicit BusyNeighbours(int count) {
        for (int i = 0; i < count; ++i) {
            const pid_t child = fork();
            if (child < 0) {
                throw std::runtime_error("cannot start a busy process");
            }
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (std::atomic<uint64_t> turns{0};; ++turns) {
                }
            }
            children_.push_back(child);
        }
    }
    ~BusyNeighbours() {
        for (const pid_t child : children_) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
    }
    BusyNeighbours(const BusyNeighbours &) = delete;
    BusyNeighbours &operator=(const BusyNeighbours &) = delete;

private:
    std::vector<pid_t> children_;
};

/// Wraps a command so that it runs in control groups of its own, with a ceiling on memory (0: none) and the
/// limits on reads and processors that were asked for.
std::string limited(const std::string &command, const Options &options, uint64_t ceiling_mib) {
    if (ceiling_mib == 0 && options.read_mb_per_s == 0 && options.cpus <= 0) {
        return command;
    }
    const std::string reads = options.read_mb_per_s > 0 ? fmt::format("--read-mb-per-s {} --file '{}' ",
                                                                      options.read_mb_per_s, options.model)
                                                        : "";
    const std::string cpus = options.cpus > 0 ? fmt::format("--cpus {} ", options.cpus) : "";
    return fmt::format("'{}/under-ceiling.sh' {}{}{} {}", SLUICE_BENCH_SOURCE, cpus, reads, ceiling_mib,
                       command);
}

nlohmann::json run(const std::string &command) {
    std::FILE *pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        throw std::runtime_error("cannot start: " + command);
    }
    std::string text;
    std::array<char, 4096> buffer{};
    while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
        text.append(buffer.data(), count);
    }
    if (const int code = pclose(pipe); code != 0) {
        throw std::runtime_error(fmt::format("exit status {} from: {}", code, command));
    }
    return nlohmann::json::parse(text);
}

/// Pages that another run left in the page cache are charged to that run's cgroup, or to none: a ceiling
/// would not hold for who finds them there.
void drop_from_page_cache(const std::string &path) {
    const std::string command = fmt::format("dd if='{}' iflag=nocache count=0 status=none", path);
    if (std::system(command.c_str()) != 0) {
        throw std::runtime_error("cannot drop the model from the page cache: " + command);
    }
}

void measure(const Options &options, const std::string &folder, Measured &variant) {
    const bool unlimited = variant.variant.find("@free") != std::string::npos;
    std::string command = command_of(variant.variant, options, folder);
    if (!unlimited) {
        command = limited(command, options, options.ceiling_mib);
    }
    if (options.bound && variant.variant.starts_with("sluice")) {
        const std::string rate =
            fmt::format("'{}/device_rate' '{}' {}", folder, options.model, options.slice_kib);
        const nlohmann::json printed = run(unlimited ? rate : limited(rate, options, 0));
        variant.device_mib_per_s.push_back(printed["mib_per_s"].get<double>());
        variant.read_cpu_ms_per_mib.push_back(printed["cpu_ms_per_mib"].get<double>());
    }
    drop_from_page_cache(options.model);
    const BusyNeighbours neighbours(options.busy);
    variant.add_round(run(command));
}

/// What the numbers below it belong to.
std::string machine_line(const Options &options) {
    std::string processor = "unknown processor";
    std::ifstream facts("/proc/cpuinfo");
    for (std::string line; std::getline(facts, line);) {
        if (line.starts_with("model name")) {
            processor = line.substr(line.find(':') + 2);
            break;
        }
    }
    std::string text = fmt::format("{}, {} cores, {} compute threads, normal priority", processor,
                                   std::thread::hardware_concurrency(), options.threads);
    text += options.busy > 0 ? fmt::format(", beside {} busy processes", options.busy) : ", nothing beside";
    return text + (options.cpus > 0 ? fmt::format(", a quota of {} processors", options.cpus) : "");
}

int compare(const Options &options, const std::string &folder) {
    Bound bound{.slice_kib = options.slice_kib, .threads = options.threads};
    if (options.bound) {
        bound.compute_from = sluice::bench::compute_variant(options.variants);
    }
    std::vector<Measured> variants;
    for (const std::string &name : options.variants) {
        variants.push_back({.variant = name});
    }
    for (int round = 0; round < options.rounds; ++round) {
        for (Measured &variant : variants) {
            std::fprintf(stderr, "round %d of %d: %s\n", round + 1, options.rounds, variant.variant.c_str());
            measure(options, folder, variant);
        }
    }
    fmt::print("{}\n\n", machine_line(options));
    print_table(variants);
    if (options.bound) {
        print_bounds(bound, variants);
    }
    if (!options.json.empty()) {
        nlohmann::json all = table_numbers(variants);
        all["machine"] = machine_line(options);
        if (options.bound) {
            all["bound"] = bound_numbers(bound, variants);
        }
        std::ofstream(options.json) << all.dump(2) << '\n';
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    Options options;
    CLI::App app("Compares ways of decoding one model, interleaved.");
    app.add_option("-m,--model", options.model, "GGUF file")->required();
    app.add_option("-t,--threads", options.threads, "Compute threads")->capture_default_str();
    app.add_option("-p,--prompt", options.prompt, "Prompt tokens before measuring")->capture_default_str();
    app.add_option("-n,--tokens", options.tokens, "Tokens measured per run")->capture_default_str();
    app.add_option("-r,--rounds", options.rounds, "Rounds")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--ceiling-mib", options.ceiling_mib, "Run in a memory cgroup of this size (needs root)");
    app.add_option("--read-mb-per-s", options.read_mb_per_s,
                   "Limit reads of the model's disk to so many 10^6 bytes per second (needs root)")
        ->check(CLI::PositiveNumber);
    app.add_option("--cpus", options.cpus, "Limit each run to so many processors' worth of time (needs root)")
        ->check(CLI::PositiveNumber);
    app.add_option("--busy", options.busy, "Run so many busy processes beside each variant")
        ->check(CLI::Range(0, 1024));
    app.add_flag("--bound", options.bound,
                 "Also compare with what is possible: the compute time of a variant that begins with "
                 "stock-resident, and the time that the device needs for the bytes read");
    app.add_option("--slice-kib", options.slice_kib, "Size of the reads that measure the device")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--json", options.json, "Also write the numbers here");
    app.add_option(
           "--variant", options.variants,
           "stock-resident, stock-mmap or sluice-<cache MiB>; -norepack behind it: file layout for all "
           "weights; +sleep behind stock: with barriers that sleep, as Sluice has them; @free behind that: "
           "without "
           "limits")
        ->required();
    CLI11_PARSE(app, argc, argv);
    const std::string self = argv[0];
    try {
        return compare(options, self.substr(0, self.find_last_of('/')));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "compare: %s\n", error.what());
        return 1;
    }
}
