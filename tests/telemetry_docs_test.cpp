// docs/telemetry.md against real runs: every line has a pattern there, every key and column a row.

#include "support/cli.h"
#include "support/run_files.h"
#include "support/temp_file.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

namespace sluice::test {
namespace {

using Strings = std::vector<std::string>;

/// The page's lines under one heading.
Strings section(const std::string &heading) {
    std::istringstream page(read_text(std::string(SLUICE_MODELS) + "/../docs/telemetry.md"));
    Strings lines;
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("#")) {
            inside = heading.empty() || line == heading;
        } else if (inside) {
            lines.push_back(line);
        }
    }
    EXPECT_FALSE(lines.empty()) << "there is no section " << heading;
    return lines;
}

/// The tables of a section: of each the `names` in its first column, and their second column.
std::vector<std::vector<std::pair<std::string, std::string>>> tables(const std::string &heading) {
    std::vector<std::vector<std::pair<std::string, std::string>>> all;
    bool in_table = false;
    for (const std::string &line : section(heading)) {
        const bool row = line.starts_with("| ");
        if (row && !in_table) {
            all.emplace_back();
        }
        in_table = line.starts_with("|");
        const Strings cells = split(line, '|');
        if (row && cells.size() > 2 && cells[1].starts_with(" `")) {
            all.back().emplace_back(cells[1].substr(2, cells[1].rfind('`') - 2), cells[2]);
        }
    }
    return all;
}

Strings names(const std::vector<std::pair<std::string, std::string>> &table) {
    Strings all;
    for (const auto &[name, text] : table) {
        all.push_back(name);
    }
    return all;
}

/// A line of the page with placeholders, as a regular expression.
std::regex pattern_of(const std::string &line) {
    static const std::map<std::string, std::string> placeholders = {{"BYTES", "([0-9.]+ [KMG]iB|unmeasured)"},
                                                                    {"N", "[0-9]+"},
                                                                    {"M", "[0-9]+"},
                                                                    {"S", "[0-9.]+"},
                                                                    {"R", "[0-9.]+"},
                                                                    {"X", "[0-9.]+"},
                                                                    {"P", "[0-9.]+"},
                                                                    {"REASON", ".+"},
                                                                    {"WHY", ".+"},
                                                                    {"NAME", ".+"},
                                                                    {"CHOICE", ".+"},
                                                                    {"WHETHER", "(on|off)"},
                                                                    {"FLAGS", "--.+"},
                                                                    {"COMMAND", ".+"},
                                                                    {"WHERE INDICES COME FROM", ".+"}};
    std::string pattern;
    for (size_t i = 0; i < line.size();) {
        const bool word_start = i == 0 || std::isalpha(static_cast<unsigned char>(line[i - 1])) == 0;
        const auto found = std::find_if(placeholders.rbegin(), placeholders.rend(), [&](const auto &known) {
            const size_t end = i + known.first.size();
            return word_start && line.compare(i, known.first.size(), known.first) == 0 &&
                   (end == line.size() || std::isalpha(static_cast<unsigned char>(line[end])) == 0);
        });
        if (found != placeholders.rend()) {
            pattern += found->first == "P" && line.compare(i, 3, "P %") == 0
                           ? "(" + found->second + " %|unmeasured)"
                           : found->second;
            i += found->first == "P" && line.compare(i, 3, "P %") == 0 ? 3 : found->first.size();
            continue;
        }
        const char letter = line[i++];
        if (letter == '[') {
            pattern += '(';
        } else if (letter == ']') {
            pattern += ")?";
        } else {
            pattern += std::string(std::strchr("().*+?^${}|\\", letter) != nullptr ? "\\" : "") + letter;
        }
    }
    return std::regex(pattern);
}

/// The page's patterns of lines on standard error: indented, with a prefix.
Strings documented_lines() {
    Strings lines;
    for (const std::string &line : section("")) {
        if (std::regex_search(line, std::regex("^    [a-z-]+: "))) {
            lines.push_back(line.substr(4));
        }
    }
    return lines;
}

TEST(TelemetryDocs, EveryLineOfARunHasItsPattern) {
    const Strings documented = documented_lines();
    std::set<std::string> seen;
    for (const Strings &mode :
         {Strings{"--moe-stream", "--cache-mb", "2"}, Strings{"--moe-stream"}, Strings{"--no-moe-stream"},
          Strings{"--moe-stream", "--no-direct"}, Strings{"--moe-stream", "--lookahead", "4"},
          Strings{"--moe-stream", "--row-stream"}, Strings{"--moe-stream", "--n-expert-used", "2"},
          Strings{"--moe-stream", "--dense-weights", "mmap"}}) {
        Strings arguments = {"run", "-t", "1", "-n", "40"};
        arguments.insert(arguments.end(), mode.begin(), mode.end());
        const ChildResult result = sluice(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        for (const std::string &line : result.err_lines()) {
            const auto found =
                std::find_if(documented.begin(), documented.end(), [&line](const std::string &known) {
                    return std::regex_match(line, pattern_of(known));
                });
            if (found == documented.end()) {
                ADD_FAILURE() << "docs/telemetry.md has no pattern for: " << line;
            } else {
                seen.insert(found->substr(0, found->find(':')));
            }
        }
    }
    EXPECT_EQ(seen, (std::set<std::string>{"compute", "generation", "lossy", "memory", "mode", "moe-cache",
                                           "moe-hot-set", "moe-lookahead", "moe-repack", "moe-rows",
                                           "moe-stream", "plan", "prefill", "rows", "settled", "sluice"}));
}

TEST(TelemetryDocs, SummaryHasThePagesOrder) {
    const ChildResult result = sluice({"run", "-t", "1", "-n", "3", "--moe-stream", "--no-hot-set"});
    Strings order;
    for (const std::string &line : result.err_lines()) {
        order.push_back(line.substr(0, line.find(':')));
    }
    EXPECT_EQ(order, (Strings{"plan", "mode", "generation", "prefill", "moe-stream", "moe-cache",
                              "moe-repack", "moe-lookahead", "settled", "memory", "compute"}));
}

TEST(TelemetryDocs, TableHasThePagesKeysAndColumnsInItsOrder) {
    const ScratchDir dir;
    ASSERT_EQ(sluice({"run", "-t", "1", "-n", "3", "--moe-stream", "--csv", dir / "run.csv"}).exit_code, 0);
    const RunTable table = read_table(dir / "run.csv");
    const auto documented = tables("## Table of a run");
    ASSERT_EQ(documented.size(), 3U);
    EXPECT_EQ(table.preamble_names, names(documented[0]));
    EXPECT_EQ(table.columns, names(documented[1]));
    Strings totals;
    for (const std::string &column : table.columns) {
        if (column != "token" && column != "phase" && column != "device_mib_per_s" &&
            column != "resident_mib") {
            totals.push_back("total_" + column);
        }
    }
    Strings summary = {"rows"};
    summary.insert(summary.end(), totals.begin(), totals.end());
    const Strings last = names(documented[2]);
    summary.insert(summary.end(), last.begin(), last.end());
    EXPECT_EQ(table.summary_names, summary);
}

TEST(TelemetryDocs, NodesHaveThePagesColumns) {
    const ScratchDir dir;
    ASSERT_EQ(sluice({"run", "-t", "1", "-n", "1", "--moe-stream", "--decode-trace", dir / "n"}).exit_code,
              0);
    EXPECT_EQ(read_table(dir / "n").columns, names(tables("## Times of graph nodes").at(0)));
}

TEST(TelemetryDocs, EventsHaveThePagesMembers) {
    const ScratchDir dir;
    ASSERT_EQ(sluice({"run", "-t", "1", "-n", "3", "--moe-stream", "--progress", dir / "a"}).exit_code, 0);
    ASSERT_EQ(sluice({"run", "-m", dir / "none", "-p", "x", "--progress", dir / "b"}).exit_code, 1);
    std::map<std::string, std::set<std::string>> found; // members by event
    std::istringstream lines(read_text(dir / "a") + read_text(dir / "b"));
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json event = nlohmann::json::parse(line);
        for (const auto &[member, value] : event.items()) {
            if (member != "v" && member != "event") {
                found[event.at("event")].insert(member);
            }
        }
    }
    const auto documented = tables("## Progress for programs");
    ASSERT_EQ(documented.size(), 2U);
    std::map<std::string, std::set<std::string>> expected;
    for (const auto &[event, when] : documented[0]) {
        expected[event];
    }
    for (const auto &[member, events] : documented[1]) {
        for (const std::string &event : split(events, ',')) {
            const std::string name = event.substr(1, event.find_first_of(" ,", 1) - 1);
            if (!name.empty() && expected.contains(name)) {
                expected[name].insert(member);
            }
        }
    }
    EXPECT_EQ(found, expected);
}

} // namespace
} // namespace sluice::test
