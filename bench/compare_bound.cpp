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

/// How long the device takes for what a token reads: empty where that is unknown.
std::optional<double> read_ms(const Bound &bound, const Measured &variant) {
    if (resident(variant.variant)) {
        return 0;
    }
    const std::optional<double> mib = variant.median_of("read_mib_per_token");
    return mib ? std::optional(*mib / quantile(bound.device_mib_per_s, 0.5) * 1e3) : std::nullopt;
}

/// 1: as fast as is possible.
std::optional<double> achieved(const Measured &variant, double compute, std::optional<double> read) {
    return read ? std::optional(std::max(compute, *read) / variant.median_ms()) : std::nullopt;
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

void require_fio() {
    if (std::system("command -v fio >/dev/null") != 0) {
        throw std::runtime_error("--bound measures the device with fio, which is not installed (Debian "
                                 "package fio)");
    }
}

std::string fio_command(const std::string &model, uint64_t slice_kib) {
    std::string name;
    for (const char letter : model) { // to fio a colon stands between two names
        name += letter == ':' ? "\\:" : std::string(1, letter);
    }
    return fmt::format("fio --name=device --filename='{}' --readonly --direct=1 --rw=randread --bs={}k "
                       "--ioengine=io_uring --iodepth=4 --runtime=2 --time_based --output-format=json",
                       name, slice_kib);
}

double fio_mib_per_s(const nlohmann::json &printed) {
    const double rate = printed.at("jobs").at(0).at("read").at("bw_bytes").get<double>() / 1048576.0;
    if (rate <= 0) {
        throw std::runtime_error("fio read nothing from the model; is it smaller than --slice-kib?");
    }
    return rate;
}

void print_bounds(const Bound &bound, const std::vector<Measured> &variants) {
    const Measured &base = variants[bound.compute_from];
    const std::vector<double> &rates = bound.device_mib_per_s;
    fmt::print("\nDevice: {:.0f} MiB/s (fio, random reads of {} KiB, 4 in flight; median of rounds, range "
               "{:.0f} - {:.0f}). Compute time: {}.\n\n"
               "| variant | ms per token | compute bound ms | read bound ms | achieved / bound",
               quantile(rates, 0.5), bound.slice_kib, quantile(rates, 0), quantile(rates, 1), base.variant);
    for (const char *part : parts) {
        fmt::print(" | {} ms", part);
    }
    fmt::print(" |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const Measured &variant : variants) {
        const std::optional<double> read = read_ms(bound, variant);
        fmt::print("| {} | {:.2f} | {:.2f} | {} | {}", variant.variant, variant.median_ms(), base.median_ms(),
                   cell(read, 2), cell(achieved(variant, base.median_ms(), read), 2));
        for (const char *part : parts) {
            fmt::print(" | {}", cell(part_of(variant, part), 2));
        }
        fmt::print(" |\n");
    }
}

nlohmann::json bound_numbers(const Bound &bound, const std::vector<Measured> &variants) {
    const Measured &base = variants[bound.compute_from];
    nlohmann::json numbers = {{"compute_from", base.variant},
                              {"compute_ms", base.median_ms()},
                              {"slice_kib", bound.slice_kib},
                              {"device_mib_per_s", quantile(bound.device_mib_per_s, 0.5)},
                              {"round_device_mib_per_s", bound.device_mib_per_s}};
    for (const Measured &variant : variants) {
        const std::optional<double> read = read_ms(bound, variant);
        nlohmann::json row = {{"ms_per_token", variant.median_ms()},
                              {"read_ms", number(read)},
                              {"achieved", number(achieved(variant, base.median_ms(), read))}};
        for (const char *part : parts) {
            row[fmt::format("{}_ms", part)] = number(part_of(variant, part));
        }
        numbers["variants"][variant.variant] = std::move(row);
    }
    return numbers;
}

} // namespace sluice::bench
