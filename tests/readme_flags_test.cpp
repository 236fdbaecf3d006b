// README's table of flags against `sluice run --help`: the same flags, defaults, ranges and words.

#include "support/cli.h"
#include "support/run_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

namespace sluice::test {
namespace {

/// What one place says of a flag.
struct Flag {
    std::set<std::string> names = {};
    std::string text = {};         ///< all of it
    std::string default_text = {}; ///< empty: none
};

/// By its longest name.
using Flags = std::map<std::string, Flag>;

void add(Flag flag, Flags &flags) {
    const auto longest = std::max_element(flag.names.begin(), flag.names.end(),
                                          [](const auto &a, const auto &b) { return a.size() < b.size(); });
    ASSERT_NE(longest, flag.names.end()) << flag.text;
    const std::string key = *longest;
    EXPECT_TRUE(flags.emplace(key, std::move(flag)).second) << key << " is there twice";
}

std::set<std::string> names_in(const std::string &text, const std::regex &name) {
    std::set<std::string> names = {};
    for (std::sregex_iterator found(text.begin(), text.end(), name); found != std::sregex_iterator();
         ++found) {
        names.insert((*found)[1]);
    }
    return names;
}

/// Rows whose first cell begins with a flag.
Flags flags_of_readme() {
    Flags flags;
    std::istringstream page(read_text(std::string(SLUICE_MODELS) + "/../README.md"));
    static const std::regex name("[`](--?[a-z-]+)");
    for (std::string line; std::getline(page, line);) {
        if (!line.starts_with("| `-")) {
            continue;
        }
        std::vector<std::string> cells = split(line, '|');
        EXPECT_GE(cells.size(), 4U) << line;
        std::string default_text = cells.at(3);
        std::erase(default_text, '`');
        default_text = std::regex_replace(default_text, std::regex("^ +| +$"), "");
        add({.names = names_in(cells.at(1), name), .text = line, .default_text = default_text}, flags);
    }
    return flags;
}

/// An option begins two blanks from the left and goes on further to the right.
Flags flags_of_help() {
    Flags flags;
    std::vector<std::string> blocks;
    std::istringstream help(sluice({"run", "--help"}).out);
    for (std::string line; std::getline(help, line);) {
        if (line.starts_with("  -")) {
            blocks.push_back(line);
        } else if (line.starts_with("   ") && !blocks.empty()) {
            blocks.back() += line.substr(line.find_first_not_of(' ') - 1);
        }
    }
    static const std::regex name("(?:^  |,)(--?[a-z-]+)");
    static const std::regex second_name(R"(\((-[a-z]+)[;)])"); // of two letters, which CLI11 does not know
    static const std::regex captured("^  [^ ]+ ?[^ ]*(?: in \\[[^\\]]*\\])?=([^ ]+)");
    static const std::regex described(R"(default: ([^)]*)\))");
    for (const std::string &block : blocks) {
        Flag flag{.names = names_in(block.substr(0, block.find(' ', 2)), name), .text = block};
        flag.names.merge(names_in(block, second_name));
        std::smatch found;
        if (std::regex_search(block, found, captured) || std::regex_search(block, found, described)) {
            flag.default_text = found[1];
        }
        if (!flag.names.contains("--help")) {
            add(std::move(flag), flags);
        }
    }
    return flags;
}

TEST(ReadmeFlags, AreThoseOfTheHelp) {
    const Flags readme = flags_of_readme();
    const Flags help = flags_of_help();
    EXPECT_GT(help.size(), 40U);
    for (const auto &[key, flag] : help) {
        const auto row = readme.find(key);
        ASSERT_NE(row, readme.end()) << key << " has no row";
        EXPECT_EQ(row->second.names, flag.names) << key;
    }
    for (const auto &[key, flag] : readme) {
        EXPECT_TRUE(help.contains(key)) << key << " is no flag";
    }
}

TEST(ReadmeFlags, HaveTheDefaultsOfTheHelp) {
    const Flags readme = flags_of_readme();
    for (const auto &[key, flag] : flags_of_help()) {
        ASSERT_TRUE(readme.contains(key));
        EXPECT_EQ(readme.at(key).default_text, flag.default_text) << key << "\n" << flag.text;
    }
}

TEST(ReadmeFlags, HaveTheRangesAndWordsOfTheHelp) {
    constexpr size_t kMostDigits = 6; // larger bounds only keep nonsense away
    const Flags readme = flags_of_readme();
    size_t ranges = 0;
    size_t words = 0;
    for (const auto &[key, flag] : flags_of_help()) {
        ASSERT_TRUE(readme.contains(key));
        std::smatch found;
        if (std::regex_search(flag.text, found, std::regex(R"(in \[([0-9.]+) - ([0-9.]+)\])")) &&
            found[2].length() <= static_cast<long>(kMostDigits)) {
            EXPECT_THAT(readme.at(key).text, testing::HasSubstr(found[1].str() + " to " + found[2].str()))
                << key;
            ++ranges;
        }
        if (std::regex_search(flag.text, found, std::regex(R"(:\{([^}]*)\})"))) {
            for (const std::string &word : split(found[1].str(), ',')) {
                EXPECT_TRUE(std::regex_search(readme.at(key).text, std::regex("[` ]" + word + "`")))
                    << key << " " << word;
                ++words;
            }
        }
    }
    EXPECT_GE(ranges, 7U);
    EXPECT_GE(words, 11U);
}

TEST(Help, ShowsNoNumbersForWords) {
    const std::string help = sluice({"run", "--help"}).out;
    EXPECT_THAT(help, testing::Not(testing::HasSubstr("->")));
    EXPECT_THAT(help, testing::Not(testing::HasSubstr("ENUM")));
}

} // namespace
} // namespace sluice::test
