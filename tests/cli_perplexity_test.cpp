// sluice perplexity, as a user runs it.

#include "support/cli.h"
#include "support/temp_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using testing::HasSubstr;
using Strings = std::vector<std::string>;

const std::string kText = std::string(SLUICE_MODELS) + "/heldout-austen.txt";

ChildResult perplexity(const Strings &more) {
    Strings arguments = {"perplexity", "-f", kText, "-c", "64", "--chunks", "2", "-t", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sluice(arguments);
}

TEST(CliPerplexity, StreamedEqualsResident) {
    const ChildResult resident = perplexity({"--no-moe-stream"});
    const ChildResult streamed = perplexity({"--moe-stream", "--cache-mb", "2"});
    ASSERT_EQ(resident.exit_code, 0) << resident.err;
    ASSERT_EQ(streamed.exit_code, 0) << streamed.err;
    EXPECT_THAT(resident.out, testing::MatchesRegex("perplexity: [0-9.]+ \\+/- [0-9.]+ over 62 tokens in 2 "
                                                    "chunks of 64\n"));
    // Stock repacks experts that are in memory, which may change last bits: the same to what is printed of
    // them.
    EXPECT_NEAR(std::stod(resident.out.substr(12)), std::stod(streamed.out.substr(12)), 0.5);
}

TEST(CliPerplexity, OfALossyRunSaysSo) {
    const ChildResult result =
        perplexity({"--moe-stream", "--cache-mb", "2", "--n-expert-used", "1", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.at("lossy"), "--n-expert-used 1");
    EXPECT_EQ(json.at("tokens"), 62);
    EXPECT_THAT(result.err, HasSubstr("lossy: --n-expert-used 1: the text may differ from the model's"));
}

TEST(CliPerplexity, ATextShorterThanAContextIsRefused) {
    const ScratchDir dir;
    const ChildResult result =
        sluice({"perplexity", "-f", dir.write("short.txt", "Once upon a time."), "-c", "64"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("fewer than one context of 64"));
}

TEST(CliPerplexity, AMissingTextIsOneSentence) {
    const ChildResult result = sluice({"perplexity", "-f", "/no/such/text"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("/no/such/text"));
}

} // namespace
} // namespace sluice::test
