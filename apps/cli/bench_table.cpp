#include "bench_table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::cli {

namespace {

using nlohmann::json;

using Cells = std::vector<std::string>;

constexpr int kFormat = 1;

double mebibytes(double bytes) {
    return bytes / (1024.0 * 1024.0);
}

/// How many times as fast as the first setting; empty if either has failed.
std::optional<double> speed_of(const BenchTask &task, const BenchResult &result, const BenchResult &first) {
    if (!result.failure.empty() || !first.failure.empty()) {
        return std::nullopt;
    }
    return numbers_of(first, task.prompt_tokens).median_ms / numbers_of(result, task.prompt_tokens).median_ms;
}

Cells header_of(const BenchResult &first) {
    Cells cells;
    for (const auto &[name, value] : first.setting.varied) {
        cells.push_back(name);
    }
    cells.insert(cells.end(), {"mode", "ms per token", "quartiles", "speed", "prefill tokens/s", "load s",
                               "peak MiB", "hit rate", "MiB read per token"});
    return cells;
}

Cells row_of(const BenchTask &task, const BenchResult &result, const BenchResult &first) {
    Cells cells;
    for (const auto &[name, value] : result.setting.varied) {
        cells.push_back(value);
    }
    if (!result.failure.empty()) {
        cells.insert(cells.end(), {"failed", "", "", "", "", "", "", "", ""});
        return cells;
    }
    const BenchNumbers numbers = numbers_of(result, task.prompt_tokens);
    const std::optional<double> speed = speed_of(task, result, first);
    cells.insert(
        cells.end(),
        {result.runs.front().streaming ? "streaming" : "resident", fmt::format("{:.2f}", numbers.median_ms),
         fmt::format("{:.2f} - {:.2f}", numbers.first_quartile_ms, numbers.third_quartile_ms),
         speed ? fmt::format("{:.2f}", *speed) : "", fmt::format("{:.1f}", numbers.prefill_tokens_per_second),
         fmt::format("{:.2f}", numbers.load_seconds),
         numbers.peak_bytes ? fmt::format("{:.0f}", mebibytes(static_cast<double>(*numbers.peak_bytes)))
                            : "unmeasured",
         numbers.hit_rate ? fmt::format("{:.3f}", *numbers.hit_rate) : "",
         fmt::format("{:.1f}", mebibytes(numbers.read_bytes_per_token))});
    return cells;
}

std::string markdown_of(const std::vector<Cells> &rows) {
    std::string text;
    for (size_t i = 0; i < rows.size(); ++i) {
        text += "|";
        for (const std::string &cell : rows[i]) {
            text += " " + cell + " |";
        }
        text += "\n";
        if (i == 0) {
            text += "|";
            for (size_t column = 0; column < rows[0].size(); ++column) {
                text += "---|";
            }
            text += "\n";
        }
    }
    return text;
}

std::string aligned(const std::vector<Cells> &rows) {
    std::vector<size_t> widths(rows[0].size());
    for (const Cells &row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const Cells &row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", row[i], widths[i]);
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

template <typename Value>
std::vector<double> of_runs(const BenchResult &result, Value value) {
    std::vector<double> values;
    values.reserve(result.runs.size());
    for (const BenchRun &run : result.runs) {
        values.push_back(value(run));
    }
    return values;
}

/// The members of a setting that has no numbers are there all the same.
void add_numbers(const BenchTask &task, const BenchResult &result, const BenchResult &first, json &setting) {
    const bool measured = result.failure.empty();
    const BenchNumbers numbers = measured ? numbers_of(result, task.prompt_tokens) : BenchNumbers{};
    const auto number = [measured](double value) { return measured ? json(value) : json(); };
    setting["ms_per_token"] = {{"median", number(numbers.median_ms)},
                               {"first_quartile", number(numbers.first_quartile_ms)},
                               {"third_quartile", number(numbers.third_quartile_ms)}};
    const std::optional<double> speed = speed_of(task, result, first);
    setting["speed"] = speed ? json(*speed) : json();
    setting["prefill_tokens_per_second"] = number(numbers.prefill_tokens_per_second);
    setting["load_seconds"] = number(numbers.load_seconds);
    setting["peak_bytes"] = numbers.peak_bytes ? json(*numbers.peak_bytes) : json();
    setting["hit_rate"] = numbers.hit_rate ? json(*numbers.hit_rate) : json();
    setting["read_bytes_per_token"] = number(numbers.read_bytes_per_token);
}

} // namespace

double quantile(std::vector<double> values, double at) {
    std::sort(values.begin(), values.end());
    const double place = at * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

BenchNumbers numbers_of(const BenchResult &result, int prompt_tokens) {
    BenchNumbers numbers;
    std::vector<double> tokens;
    uint64_t hits = 0;
    uint64_t asked = 0;
    uint64_t read = 0;
    bool measured = true;
    uint64_t peak = 0;
    for (const BenchRun &run : result.runs) {
        tokens.insert(tokens.end(), run.token_ms.begin(), run.token_ms.end());
        hits += run.hits;
        asked += run.hits + run.misses;
        read += run.read_bytes;
        measured = measured && run.peak_bytes;
        peak = std::max(peak, run.peak_bytes.value_or(0));
    }
    numbers.median_ms = quantile(tokens, 0.5);
    numbers.first_quartile_ms = quantile(tokens, 0.25);
    numbers.third_quartile_ms = quantile(tokens, 0.75);
    numbers.prefill_tokens_per_second = quantile(
        of_runs(result, [&](const BenchRun &run) { return prompt_tokens / run.prefill_seconds; }), 0.5);
    numbers.load_seconds =
        quantile(of_runs(result, [](const BenchRun &run) { return run.load_seconds; }), 0.5);
    numbers.peak_bytes = measured ? std::optional(peak) : std::nullopt;
    if (asked > 0) {
        numbers.hit_rate = static_cast<double>(hits) / static_cast<double>(asked);
    }
    numbers.read_bytes_per_token = static_cast<double>(read) / static_cast<double>(tokens.size());
    return numbers;
}

std::string bench_table(const BenchTask &task, const std::vector<BenchResult> &results, bool markdown) {
    std::vector<Cells> rows{header_of(results.front())};
    std::string failures;
    for (const BenchResult &result : results) {
        rows.push_back(row_of(task, result, results.front()));
        if (!result.failure.empty()) {
            failures += fmt::format("{}failed: {}: {}\n", markdown ? "\n" : "", result.setting.line(),
                                    result.failure);
        }
    }
    return (markdown ? markdown_of(rows) : aligned(rows)) + failures;
}

std::string bench_json(const BenchTask &task, const std::vector<BenchResult> &results,
                       const std::string &version) {
    json settings = json::array();
    for (const BenchResult &result : results) {
        json runs = json::array();
        for (const BenchRun &run : result.runs) {
            runs.push_back(to_json(run));
        }
        json setting = {{"flags", result.setting.line()},
                        {"failure", result.failure.empty() ? json() : json(result.failure)},
                        {"runs", runs}};
        add_numbers(task, result, results.front(), setting);
        settings.push_back(std::move(setting));
    }
    const json all = {{"v", kFormat},          {"version", version},
                      {"model", task.model},   {"prompt_tokens", task.prompt_tokens},
                      {"tokens", task.tokens}, {"rounds", task.rounds},
                      {"settings", settings}};
    return all.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

} // namespace sluice::cli
