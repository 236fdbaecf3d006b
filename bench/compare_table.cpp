#include "compare_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace sluice::bench {

double quantile(std::vector<double> values, double at) {
    std::sort(values.begin(), values.end());
    const double place = at * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

void Measured::add_round(nlohmann::json printed) {
    const auto of_round = printed["token_ms"].get<std::vector<double>>();
    round_medians.push_back(quantile(of_round, 0.5));
    tokens.insert(tokens.end(), of_round.begin(), of_round.end());
    rounds.push_back(std::move(printed));
}

double Measured::median_ms() const {
    return quantile(round_medians, 0.5);
}

std::optional<double> Measured::median_of(const std::string &name) const {
    std::vector<double> values;
    for (const nlohmann::json &round : rounds) {
        if (!round.contains(name)) {
            return std::nullopt;
        }
        values.push_back(round[name].get<double>());
    }
    return quantile(std::move(values), 0.5);
}

void print_table(const std::vector<Measured> &variants) {
    fmt::print("| variant | ms per token (median) | rounds' range | quartiles of tokens | x of {} | load s | "
               "peak MiB | "
               "MiB read per token | hit rate | waiting ms per token | prefill s | dense MiB | "
               "MiB of rows per 100 tokens |\n"
               "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
               variants[0].variant);
    const double base = variants[0].median_ms();
    for (const Measured &variant : variants) {
        const nlohmann::json &last = variant.last();
        const bool streamed = last.contains("hit_rate");
        fmt::print("| {} | {:.2f} | {:.2f} - {:.2f} | {:.2f} - {:.2f} | {:.2f} | {:.2f} | {:.0f} | {} | {} | "
                   "{} | {:.2f} | {} | {} |\n",
                   variant.variant, variant.median_ms(), quantile(variant.round_medians, 0),
                   quantile(variant.round_medians, 1), quantile(variant.tokens, 0.25),
                   quantile(variant.tokens, 0.75), base / variant.median_ms(), last["load_s"].get<double>(),
                   last["peak_bytes"].get<double>() / 1048576.0,
                   streamed ? fmt::format("{:.1f}", last["read_mib_per_token"].get<double>()) : "-",
                   streamed ? fmt::format("{:.3f}", last["hit_rate"].get<double>()) : "-",
                   streamed ? fmt::format("{:.1f}", last["stall_ms_per_token"].get<double>()) : "-",
                   last["prefill_s"].get<double>(),
                   streamed ? fmt::format("{:.0f}", last["dense_mib"].get<double>()) : "-",
                   streamed ? fmt::format("{:.2f}", last["row_mib_per_100_tokens"].get<double>()) : "-");
    }
}

nlohmann::json table_numbers(const std::vector<Measured> &variants) {
    nlohmann::json all;
    for (const Measured &variant : variants) {
        all[variant.variant] = {{"round_medians_ms", variant.round_medians}, {"last", variant.last()}};
    }
    return all;
}

} // namespace sluice::bench
