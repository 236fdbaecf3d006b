// What a page of docs/ says about JSON, against JSON.
#pragma once

#include "support/cli.h"
#include "support/run_files.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace sluice::test {

/// Members named in the first column of the tables under `heading` of docs/`page`, as in "| `plan.peak_bytes`
/// |".
inline std::set<std::string> documented_members(const std::string &page, const std::string &heading) {
    std::istringstream lines(read_text(std::string(SLUICE_MODELS) + "/../docs/" + page));
    std::set<std::string> members;
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("#")) {
            inside = line == heading;
        } else if (inside && line.starts_with("| `")) {
            members.insert(line.substr(3, line.find('`', 3) - 3));
        }
    }
    EXPECT_FALSE(members.empty()) << "docs/" << page << " has no table under " << heading;
    return members;
}

/// Adds the paths of all members that are no objects: "plan.memory[].bytes".
inline void add_member_paths(const nlohmann::json &value, const std::string &path,
                             std::set<std::string> &paths) {
    if (value.is_object()) {
        for (const auto &[name, member] : value.items()) {
            add_member_paths(member, path.empty() ? name : path + "." + name, paths);
        }
    } else if (value.is_array() && !value.empty() && value[0].is_object()) {
        for (const nlohmann::json &element : value) {
            add_member_paths(element, path + "[]", paths);
        }
    } else {
        paths.insert(path);
    }
}

} // namespace sluice::test
