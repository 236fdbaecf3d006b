// What is delivered beside the program: its version in full, manual page and completions made of the flags,
// the bill of materials, and the Debian package.

#include "support/cli.h"
#include "support/gate.h"
#include "support/run_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace sluice::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

ChildResult shell(const std::string &line) {
    return run_child("/bin/sh", {"-c", line});
}

std::string page(const std::string &name) {
    const ChildResult result = sluice({"flag-pages", name});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
}

/// The long flags that `sluice COMMAND --help` lists.
std::set<std::string> flags_in_help(const std::string &command) {
    std::istringstream help(sluice({command, "--help"}).out);
    std::set<std::string> flags;
    for (std::string line; std::getline(help, line);) {
        const size_t begin = line.find("--");
        if (line.starts_with("  -") && begin != std::string::npos) {
            flags.insert(line.substr(begin, line.find_first_of(" ,=[", begin) - begin));
        }
    }
    return flags;
}

TEST(Version, SaysOfWhichTreeForWhichProcessorAndWithWhichBarriers) {
    const std::string text = sluice({"--version"}).out;
    EXPECT_THAT(text, testing::StartsWith("sluice "));
    for (const char *part : {"\nllama.cpp: ", "\nprocessor features built for: ", "\nbarriers: "}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

TEST(FlagPages, HaveEveryFlagOfEveryCommand) {
    const std::string manual = page("manual");
    for (const char *command : {"run", "bench", "inspect", "make-model", "replay", "perplexity", "report"}) {
        const std::set<std::string> flags = flags_in_help(command);
        EXPECT_FALSE(flags.empty()) << command;
        for (const std::string &flag : flags) {
            std::string escaped;
            for (const char letter : flag) {
                escaped += letter == '-' ? "\\-" : std::string(1, letter);
            }
            EXPECT_THAT(manual, HasSubstr(escaped));
            EXPECT_THAT(page("bash"), HasSubstr(flag));
            EXPECT_THAT(page("zsh"), HasSubstr(flag));
            EXPECT_THAT(page("fish"), HasSubstr(" -l " + flag.substr(2)));
        }
    }
    EXPECT_THAT(manual, testing::Not(HasSubstr("flag\\-pages")));
}

TEST(FlagPages, BashCompletesCommandsFlagsAndWords) {
    const std::string path = scratch_path("sluice.bash");
    std::ofstream(path) << page("bash");
    const auto complete = [&](const std::string &words, int at) {
        return shell("bash -c '. " + path + "; COMP_WORDS=(sluice " + words +
                     "); COMP_CWORD=" + std::to_string(at) + "; _sluice; echo ${COMPREPLY[@]}'")
            .out;
    };
    EXPECT_EQ(complete("perpl", 1), "perplexity\n");
    EXPECT_EQ(complete("run --cache-m", 2), "--cache-mb\n");
    EXPECT_EQ(complete("run --io-engine th", 3), "threads\n");
}

TEST(FlagPages, ManualPageHasNothingThatManDoesNotKnow) {
    const std::string path = scratch_path("sluice.1");
    std::ofstream(path) << page("manual");
    if (shell("command -v groff").exit_code != 0) {
        GTEST_SKIP() << "no groff here";
    }
    const ChildResult shown = shell("groff -man -Tascii -ww -z " + path);
    EXPECT_EQ(shown.err, "");
}

TEST(BillOfMaterials, NamesEverySharedLibraryThatTheProgramAsksFor) {
    const nlohmann::json bill = nlohmann::json::parse(read_text(SLUICE_BUILD "/sluice.spdx.json"));
    EXPECT_EQ(bill.at("spdxVersion"), "SPDX-2.3");
    std::string comments;
    for (const nlohmann::json &package : bill.at("packages")) {
        EXPECT_FALSE(package.at("licenseDeclared").get<std::string>().empty());
        EXPECT_FALSE(package.at("versionInfo").get<std::string>().empty()) << package.at("name");
        comments += package.value("comment", "") + " ";
    }
    const ChildResult needed =
        shell("readelf -d '" SLUICE_BINARY "' | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\.so.*\\]/\\1/p'");
    if (needed.exit_code != 0 || needed.out.empty()) {
        GTEST_SKIP() << "no readelf here";
    }
    std::istringstream names(needed.out);
    for (std::string name; std::getline(names, name);) {
        EXPECT_THAT(comments, HasSubstr(name.substr(0, name.find("-x86"))))
            << "no package in the bill has " << name;
    }
}

/// Packs the build into `folder` and returns the package's path.
std::string packed(const std::string &folder) {
    fs::create_directories(folder);
    const ChildResult result =
        shell("cd '" SLUICE_BUILD "' && SOURCE_DATE_EPOCH=1700000000 cpack -G DEB -B '" + folder +
              "' >&2 && ls '" + folder + "'/*.deb");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
}

TEST(DebianPackage, IsTheSameBytesEachTimeAndHoldsWhatIsDelivered) {
    if (shell("command -v dpkg-deb && command -v dpkg-shlibdeps").exit_code != 0) {
        GTEST_SKIP() << "no dpkg here";
    }
    const std::string first = packed(scratch_path("first"));
    const std::string second = packed(scratch_path("second"));
    EXPECT_TRUE(read_text(first) == read_text(second)) << first << " and " << second << " differ";
    const std::string contents = shell("dpkg-deb --contents " + first).out;
    for (const char *file :
         {"/usr/bin/sluice", "/man1/sluice.1", "/completions/sluice", "/_sluice", "/sluice.fish",
          "/sluice.spdx.json", "/tiny-moe-stories-54m-Q4_K_M.gguf", "/LICENSE"}) {
        EXPECT_THAT(contents, HasSubstr(file));
    }
    EXPECT_THAT(contents, testing::Not(HasSubstr(".a\n"))) << "archives belong to another package";
    EXPECT_THAT(shell("dpkg-deb --field " + first + " Depends").out, HasSubstr("libfmt"));
}

} // namespace
} // namespace sluice::test
