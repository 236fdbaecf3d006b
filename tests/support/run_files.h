// Reads the tables that a run wrote, as docs/telemetry.md describes them.
#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::test {

inline std::string read_text(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A file of --csv or --decode-trace. Names are kept in order as well.
struct RunTable {
    std::map<std::string, std::string> preamble;
    std::vector<std::string> preamble_names;
    std::vector<std::string> columns;
    std::vector<std::map<std::string, std::string>> rows; ///< by column
    std::map<std::string, std::string> summary;
    std::vector<std::string> summary_names;
    std::optional<std::string> end; ///< what the last line says, if it is there
    std::string text;

    /// Of the measured values of a column.
    [[nodiscard]] double sum(const std::string &column) const {
        double all = 0;
        for (const auto &row : rows) {
            const std::string &value = row.at(column);
            all += value.empty() ? 0.0 : std::stod(value);
        }
        return all;
    }
};

inline std::vector<std::string> split(const std::string &line, char separator) {
    std::vector<std::string> parts(1);
    for (const char letter : line) {
        if (letter == separator) {
            parts.emplace_back();
        } else {
            parts.back() += letter;
        }
    }
    return parts;
}

/// Records a test failure for every line that is none of the format's.
inline RunTable read_table(const std::string &path) {
    RunTable table;
    table.text = read_text(path);
    std::istringstream lines(table.text);
    std::string line;
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with("# sluice ")) << line;
    bool in_summary = false;
    while (std::getline(lines, line)) {
        EXPECT_FALSE(table.end) << "something follows the end: " << line;
        if (line == "# summary") {
            in_summary = true;
        } else if (line.starts_with("# ")) {
            const size_t colon = line.find(':');
            if (colon == std::string::npos) {
                ADD_FAILURE() << "a comment without a name: " << line;
                continue;
            }
            const std::string name = line.substr(2, colon - 2);
            const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
            if (name == "end") {
                table.end = value;
            } else {
                (in_summary ? table.summary : table.preamble)[name] = value;
                (in_summary ? table.summary_names : table.preamble_names).push_back(name);
            }
        } else if (table.columns.empty()) {
            table.columns = split(line, ',');
        } else {
            const std::vector<std::string> values = split(line, ',');
            EXPECT_EQ(values.size(), table.columns.size()) << line;
            auto &row = table.rows.emplace_back();
            for (size_t i = 0; i < std::min(values.size(), table.columns.size()); ++i) {
                row[table.columns[i]] = values[i];
            }
        }
    }
    return table;
}

} // namespace sluice::test
