#include "compare_bound.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <stdexcept>

namespace sluice::bench {

namespace {

/// Where a token's time goes, as sluice_decode names it ("_ms_per_token" behind).
constexpr const char *parts[] = {"compute", "expert_wait", "row_wait", "cache", "between", "other"};

bool resident(const std::string &variant) {
    return variant.starts_with("stock-resident");
}

std::optional<double> part_of(const Measured &variant, const char *part) {
    return variant.median_of(fmt::format("{}_ms_per_token", part));
}

/// How long the device takes for what a token of that round reads: empty where that is unknown.
std::optional<double> read_ms(const Measured &variant, size_t round) {
    if (resident(variant.variant)) {
        return 0;
    }
    const nlohmann::json &printed = variant.rounds[round];
    return printed.contains("read_mib_per_token")
               ? std::optional(printed["read_mib_per_token"].get<double>() / variant.device_mib_per_s[round] *
                               1e3)
               : std::nullopt;
}

/// Processor time of what a token of that round reads, shared by the compute threads.
std::optional<double> read_cpu_ms(const Measured &variant, size_t round, int threads) {
    if (resident(variant.variant)) {
        return 0;
    }
    const nlohmann::json &printed = variant.rounds[round];
    return printed.contains("read_mib_per_token")
               ? std::optional(printed["read_mib_per_token"].get<double>() *
                               variant.read_cpu_ms_per_mib[round] / threads)
               : std::nullopt;
}

/// The median over rounds of what `of_round` says of each; empty if it says nothing of one.
template <typename OfRound>
std::optional<double> median_over_rounds(const Measured &variant, OfRound of_round) {
    std::vector<double> values;
    for (size_t round = 0; round < variant.rounds.size(); ++round) {
        const std::optional<double> value = of_round(round);
        if (!value) {
            return std::nullopt;
        }
        values.push_back(*value);
    }
    return quantile(std::move(values), 0.5);
}

std::optional<double> read_ms(const Measured &variant) {
    return median_over_rounds(variant, [&](size_t round) { return read_ms(variant, round); });
}

std::optional<double> read_cpu_ms(const Measured &variant, int threads) {
    return median_over_rounds(variant, [&](size_t round) { return read_cpu_ms(variant, round, threads); });
}

/// 1: as fast as is possible. Each round by the device's rate just before it and its own compute time.
std::optional<double> achieved(const Measured &variant, const Measured &base, int threads) {
    return median_over_rounds(variant, [&](size_t round) {
        const std::optional<double> read = read_ms(variant, round);
        const std::optional<double> work = read_cpu_ms(variant, round, threads);
        return read && work ? std::optional(std::max(base.round_medians[round] + *work, *read) /
                                            variant.round_medians[round])
                            : std::nullopt;
    });
}

std::optional<double> device_rate(const Measured &variant) {
    return variant.device_mib_per_s.empty() ? std::nullopt
                                            : std::optional(quantile(variant.device_mib_per_s, 0.5));
}

std::string cell(std::optional<double> value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

nlohmann::json number(std::optional<double> value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
}

} // namespace

size_t compute_variant(const std::vector<std::string> &variants) {
    for (const char *wanted : {"stock-resident-plain", "stock-resident"}) {
        const auto found = std::find_if(variants.begin(), variants.end(), [wanted](const std::string &name) {
            return name.starts_with(wanted);
        });
        if (found != variants.end()) {
            return static_cast<size_t>(found - variants.begin());
        }
    }
    throw std::runtime_error("--bound takes the compute time from a variant that begins with stock-resident, "
                             "and there is none: add --variant stock-resident-plain (with @free behind it "
                             "where the model does not fit under the ceiling)");
}

void print_bounds(const Bound &bound, const std::vector<Measured> &variants) {
    const Measured &base = variants[bound.compute_from];
    fmt::print("\nDevice: random reads of {} KiB, best depth, just before each run. Compute time: {}.\n\n"
               "| variant | ms per token | compute bound ms | CPU of reads ms | device MiB/s | read bound ms "
               "| achieved / "
               "bound",
               bound.slice_kib, base.variant);
    for (const char *part : parts) {
        fmt::print(" | {} ms", part);
    }
    fmt::print(" |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const Measured &variant : variants) {
        fmt::print("| {} | {:.2f} | {:.2f} | {} | {} | {} | {}", variant.variant, variant.median_ms(),
                   base.median_ms(), cell(read_cpu_ms(variant, bound.threads), 2),
                   cell(device_rate(variant), 0), cell(read_ms(variant), 2),
                   cell(achieved(variant, base, bound.threads), 2));
        for (const char *part : parts) {
            fmt::print(" | {}", cell(part_of(variant, part), 2));
        }
        fmt::print(" |\n");
    }
}

nlohmann::json bound_numbers(const Bound &bound, const std::vector<Measured> &variants) {
    const Measured &base = variants[bound.compute_from];
    nlohmann::json numbers = {
        {"compute_from", base.variant}, {"compute_ms", base.median_ms()}, {"slice_kib", bound.slice_kib}};
    for (const Measured &variant : variants) {
        nlohmann::json row = {{"ms_per_token", variant.median_ms()},
                              {"device_mib_per_s", variant.device_mib_per_s},
                              {"read_ms", number(read_ms(variant))},
                              {"read_cpu_ms", number(read_cpu_ms(variant, bound.threads))},
                              {"achieved", number(achieved(variant, base, bound.threads))}};
        for (const char *part : parts) {
            row[fmt::format("{}_ms", part)] = number(part_of(variant, part));
        }
        numbers["variants"][variant.variant] = std::move(row);
    }
    return numbers;
}

} // namespace sluice::bench
