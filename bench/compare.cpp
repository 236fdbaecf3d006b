// Runs variants of a decode benchmark in turn, several rounds, and prints medians, spread and ratios.
// The first variant is the one the others are divided by.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Options {
    std::string model;
    int threads = 2;
    int prompt = 16;
    int tokens = 32;
    int rounds = 3;
    std::vector<std::string> variants;
    uint64_t ceiling_mib = 0;
    std::string json;
};

/// The part of `text` after `prefix`, if it begins with it.
std::optional<std::string> after(const std::string &text, const std::string &prefix) {
    return text.rfind(prefix, 0) == 0 ? std::optional(text.substr(prefix.size())) : std::nullopt;
}

/// A variant is "stock-resident", "stock-mmap" or "sluice-<cache MiB>", then "-norepack" or "-plain" (stock
/// only) for the weights' layout, then (Sluice only) what sluice_decode knows with a "+" before it, then
/// "@free" to run without the ceiling.
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
        fmt::format("{} {} {} {}", options.threads, options.prompt, options.tokens, layout + extras);
    if (extras.empty() && (name == "stock-resident" || name == "stock-mmap")) {
        const char *mode = name == "stock-mmap" ? "mmap" : "none";
        return fmt::format("'{}/stock_decode' '{}' {} {}", folder, options.model, mode, tail);
    }
    const auto cache = after(name, "sluice-");
    if (cache && layout != "plain-experts") {
        return fmt::format("'{}/sluice_decode' '{}' {} {}", folder, options.model, *cache, tail);
    }
    throw CLI::ValidationError("--variant", "'" + variant + "' is not one");
}

/// Wraps a command so that it runs in a memory cgroup of its own.
std::string under_ceiling(const std::string &command, uint64_t mib) {
    return fmt::format("'{}/under-ceiling.sh' {} {}", SLUICE_BENCH_SOURCE, mib, command);
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

double quantile(std::vector<double> values, double at) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Medians over rounds of each round's median token, and the quartiles of all tokens.
struct Result {
    std::vector<double> round_medians;
    std::vector<double> tokens;
    nlohmann::json last;
};

void print(const Options &options, const std::vector<Result> &results) {
    fmt::print("| variant | ms per token (median) | rounds' range | quartiles of tokens | x of {} | load s | "
               "peak MiB | "
               "MiB read per token | hit rate | waiting ms per token | prefill s | dense MiB | "
               "MiB of rows per 100 tokens |\n"
               "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
               options.variants[0]);
    const double base = quantile(results[0].round_medians, 0.5);
    for (size_t i = 0; i < results.size(); ++i) {
        const Result &result = results[i];
        const double median = quantile(result.round_medians, 0.5);
        const bool streamed = result.last.contains("hit_rate");
        fmt::print(
            "| {} | {:.2f} | {:.2f} - {:.2f} | {:.2f} - {:.2f} | {:.2f} | {:.2f} | {:.0f} | {} | {} | "
            "{} | {:.2f} | {} | {} |\n",
            options.variants[i], median, quantile(result.round_medians, 0), quantile(result.round_medians, 1),
            quantile(result.tokens, 0.25), quantile(result.tokens, 0.75), base / median,
            result.last["load_s"].get<double>(), result.last["peak_bytes"].get<double>() / 1048576.0,
            streamed ? fmt::format("{:.1f}", result.last["read_mib_per_token"].get<double>()) : "-",
            streamed ? fmt::format("{:.3f}", result.last["hit_rate"].get<double>()) : "-",
            streamed ? fmt::format("{:.1f}", result.last["stall_ms_per_token"].get<double>()) : "-",
            result.last["prefill_s"].get<double>(),
            streamed ? fmt::format("{:.0f}", result.last["dense_mib"].get<double>()) : "-",
            streamed ? fmt::format("{:.2f}", result.last["row_mib_per_100_tokens"].get<double>()) : "-");
    }
}

int compare(const Options &options, const std::string &folder) {
    std::vector<Result> results(options.variants.size());
    for (int round = 0; round < options.rounds; ++round) {
        for (size_t i = 0; i < options.variants.size(); ++i) {
            std::string command = command_of(options.variants[i], options, folder);
            if (options.ceiling_mib > 0 && options.variants[i].find("@free") == std::string::npos) {
                command = under_ceiling(command, options.ceiling_mib);
            }
            std::fprintf(stderr, "round %d of %d: %s\n", round + 1, options.rounds,
                         options.variants[i].c_str());
            drop_from_page_cache(options.model);
            nlohmann::json one = run(command);
            const auto tokens = one["token_ms"].get<std::vector<double>>();
            results[i].round_medians.push_back(quantile(tokens, 0.5));
            results[i].tokens.insert(results[i].tokens.end(), tokens.begin(), tokens.end());
            results[i].last = std::move(one);
        }
    }
    print(options, results);
    if (!options.json.empty()) {
        nlohmann::json all;
        for (size_t i = 0; i < results.size(); ++i) {
            all[options.variants[i]] = {{"round_medians_ms", results[i].round_medians},
                                        {"last", results[i].last}};
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
    app.add_option("-r,--rounds", options.rounds, "Rounds")->capture_default_str();
    app.add_option("--ceiling-mib", options.ceiling_mib, "Run in a memory cgroup of this size (needs root)");
    app.add_option("--json", options.json, "Also write the numbers here");
    app.add_option(
           "--variant", options.variants,
           "stock-resident, stock-mmap or sluice-<cache MiB>; -norepack behind it: file layout for all "
           "weights; @free behind that: without the ceiling")
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
