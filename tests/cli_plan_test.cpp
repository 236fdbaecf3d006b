// What `sluice run` plans and says, as its user meets it.

#include "support/cli.h"

#include <regex>
#include <sstream>

namespace sluice::test {
namespace {

using testing::HasSubstr;

using Arguments = std::vector<std::string>;

ChildResult plan(Arguments arguments, const ChildOptions &options = {}) {
    arguments.insert(arguments.begin(), {"run", "--plan"});
    return sluice(arguments, options);
}

/// Behind "command: sluice", as words.
Arguments command_of(const ChildResult &planned) {
    const size_t at = planned.out.find("command: sluice ");
    EXPECT_NE(at, std::string::npos) << planned.out << planned.err;
    std::istringstream line(at == std::string::npos ? "" : planned.out.substr(at + 16));
    Arguments words;
    for (std::string word; line >> word;) {
        words.push_back(word);
    }
    return words;
}

TEST(CliCeiling, OfAModelHeldInMemoryIsKeptOrRefused) {
    for (const char *mib : {"20", "50"}) {
        for (const char *mode : {"--plan", "--raw"}) {
            SCOPED_TRACE(std::string(mib) + " " + mode);
            expect_refused(sluice({"run", "-n", "2", "--no-moe-stream", "--ram-mb", mib, mode}), 1,
                           std::string("and ") + mib + " MiB are allowed (--ram-mb): ");
        }
    }
    const ChildResult fits = sluice({"run", "-n", "2", "--no-moe-stream", "--ram-mb", "70"});
    EXPECT_EQ(fits.exit_code, 0) << fits.err;
    std::smatch peak;
    ASSERT_TRUE(std::regex_search(fits.err, peak, std::regex("memory: peak ([0-9.]+) MiB"))) << fits.err;
    EXPECT_LE(std::stod(peak[1]), 70);
}

TEST(CliPlan, ItsCommandComesToTheSamePlan) {
    for (const Arguments &flags : std::vector<Arguments>{{},
                                                         {"--ram-mb", "45"},
                                                         {"--ram-mb", "40"},
                                                         {"--no-moe-stream"},
                                                         {"--no-moe-stream", "--ram-mb", "72"},
                                                         {"--cache-mb", "2", "--lookahead", "off"},
                                                         {"-t", "1", "--io-depth", "8", "--no-hot-set"},
                                                         {"--moe-stream", "--row-stream", "--no-repack"}}) {
        SCOPED_TRACE(testing::PrintToString(flags));
        const Arguments first = command_of(plan(flags));
        Arguments again = first;
        again.emplace_back("--plan");
        EXPECT_EQ(command_of(sluice(again)), first);
    }
}

TEST(CliPlan, CeilingNamedForASmallCacheFixesIt) {
    const ChildResult small = plan({"--ram-mb", "40"});
    std::smatch named;
    ASSERT_TRUE(std::regex_search(small.err, named, std::regex("; --ram-mb ([0-9]+) would fix that")))
        << small.err;
    EXPECT_EQ(plan({"--ram-mb", named[1]}).err, "");
}

} // namespace
} // namespace sluice::test
