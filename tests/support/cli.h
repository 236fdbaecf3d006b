// The sluice command as its tests run it.
#pragma once

#include "support/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluice::test {

/// Runs the built command. The two macros are those of sluice_test().
inline ChildResult sluice(const std::vector<std::string> &arguments, const ChildOptions &options = {}) {
    return run_child(SLUICE_BINARY, arguments, options);
}

/// The embedded model.
inline std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

/// Refused: nothing on stdout, and on stderr one sentence that has `part` in it.
inline void expect_refused(const ChildResult &result, int exit_code, const std::string &part) {
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, "");
    const std::vector<std::string> lines = result.err_lines();
    ASSERT_EQ(lines.size(), 1U) << result.err;
    EXPECT_THAT(lines[0], testing::StartsWith("sluice: "));
    EXPECT_THAT(lines[0], testing::HasSubstr(part));
}

/// Failed on the way: exit code 1, and stderr ends with a sentence that has `part` in it.
inline void expect_failed(const ChildResult &result, const std::string &part) {
    EXPECT_EQ(result.signal, 0) << result.err;
    EXPECT_EQ(result.exit_code, 1);
    const std::vector<std::string> lines = result.err_lines();
    ASSERT_FALSE(lines.empty());
    EXPECT_THAT(lines.back(), testing::StartsWith("sluice: "));
    EXPECT_THAT(lines.back(), testing::HasSubstr(part));
}

} // namespace sluice::test
