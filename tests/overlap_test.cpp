// What runs while slices are on their way.

#include "support/gate.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace sluice::test {
namespace {

/// Models with an expert that every token uses, beside the routed ones.
class SharedExpert : public testing::TestWithParam<const char *> {};

TEST_P(SharedExpert, IsComputedWhileTheRoutedOnesAreRead) {
    const std::string name = GetParam();
    const bool saved = name.ends_with("-moe") && !name.starts_with("tiny-");
    const GateRun run = expect_identical({.model = saved ? arch_model(name) : tiny_model(name)});
    EXPECT_GT(run.stats.experts.nodes_brought_forward, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, SharedExpert,
                         testing::Values("tiny-nemotron-h-moe", "tiny-gemma4", "tiny-ernie", "glm4moe-moe",
                                         "llama4-moe"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(Overlap, NothingMovesWhereEverythingWaitsForTheExperts) {
    const GateRun run = expect_identical({.model = tiny_model("tiny-qwen3moe")});
    EXPECT_EQ(run.stats.experts.nodes_brought_forward, 0U);
}

} // namespace
} // namespace sluice::test
