// What a comparison measured, and the table of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::bench {

/// One variant, over all rounds. Its functions need one round at least.
struct Measured {
    std::string variant{};
    std::vector<double> round_medians{};       ///< ms per token, one for each round
    std::vector<double> tokens{};              ///< ms of every token of every round
    std::vector<nlohmann::json> rounds{};      ///< what the program printed in each
    std::vector<double> device_mib_per_s{};    ///< just before each round; empty if not measured
    std::vector<double> read_cpu_ms_per_mib{}; ///< processor time of reading, measured with it

    void add_round(nlohmann::json printed);
    [[nodiscard]] double median_ms() const;
    [[nodiscard]] const nlohmann::json &last() const { return rounds.back(); }
    /// The median over rounds of a number that the program prints; empty if it does not print that.
    [[nodiscard]] std::optional<double> median_of(const std::string &name) const;
};

/// The value below which a share `at` (0 to 1) of `values` lies, between two of them if need be; there must
/// be some.
double quantile(std::vector<double> values, double at);

/// One row for each variant; the first one is what the others are compared with.
void print_table(const std::vector<Measured> &variants);

/// The same numbers, by variant.
nlohmann::json table_numbers(const std::vector<Measured> &variants);

} // namespace sluice::bench
