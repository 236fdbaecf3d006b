// What `cmake --install` puts in place, as an application's build meets it.
#include "support/child_process.h"
#include "support/gate.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Installed : public testing::Test {
protected:
    static void SetUpTestSuite() {
        prefix_ = scratch_path("installed");
        const ChildResult installed =
            run_child(SLUICE_CMAKE, {"--install", SLUICE_BUILD, "--prefix", prefix_});
        ASSERT_EQ(installed.exit_code, 0) << installed.err;
    }
    static void TearDownTestSuite() { fs::remove_all(prefix_); }
    void SetUp() override {
        if (!std::string(SLUICE_SANITIZED).empty()) {
            GTEST_SKIP() << "an application would need the sanitizer as well";
        }
    }

    static ChildResult shell(const std::string &line) { return run_child("/bin/sh", {"-c", line}); }
    static std::string example() { return std::string(SLUICE_SOURCES) + "/examples/stream.c"; }
    static std::string model() { return prefix_ + "/share/sluice/models/tiny-moe-stories-54m-Q4_K_M.gguf"; }

    /// The text is that of the program, and slices were read for it.
    static void expect_streams(const std::string &program) {
        const ChildResult streamed = run_child(program, {model(), "8"});
        ASSERT_EQ(streamed.exit_code, 0) << streamed.err;
        EXPECT_THAT(streamed.err, HasSubstr("slices that were not in the cache"));
        EXPECT_THAT(streamed.err, testing::Not(HasSubstr(" 0 slices")));
        const ChildResult own = run_child(prefix_ + "/bin/sluice",
                                          {"run", "-m", model(), "--raw", "-p", "Once upon a time", "-n",
                                           "64", "--temp", "0", "--repeat-penalty", "1", "--no-moe-stream"});
        ASSERT_EQ(own.exit_code, 0) << own.err;
        EXPECT_EQ("Once upon a time" + streamed.out + "\n", own.out);
    }

    static std::string prefix_;
};
std::string Installed::prefix_;

TEST_F(Installed, HeaderIsCByItself) {
    const std::string source = prefix_ + "/alone.c";
    std::ofstream(source)
        << "#include <sluice/sluice.h>\n"
           "int main(void) { return sluice_api_version() == SLUICE_API_VERSION ? 0 : 1; }\n";
    const std::string include = " -I" + prefix_ + "/include ";
    for (const char *standard : {"-std=c99", "-std=c11"}) {
        const ChildResult built =
            shell(std::string(SLUICE_CC) + " " + standard + " -fsyntax-only -pedantic -Wall" +
                  " -Wextra -Werror" + include + source);
        EXPECT_EQ(built.exit_code, 0) << built.err;
    }
}

TEST_F(Installed, ExampleIsBuiltByPkgConfigAndStreams) {
    const std::string program = prefix_ + "/stream";
    const ChildResult built =
        shell("PKG_CONFIG_PATH=$(dirname $(find " + prefix_ + " -name sluice.pc)) && " +
              "export PKG_CONFIG_PATH && " + SLUICE_CC + " -std=c11 -Wall -Wextra -Werror " + example() +
              " $(pkg-config --cflags --libs sluice) -o " + program);
    ASSERT_EQ(built.exit_code, 0) << built.err;
    expect_streams(program);
}

TEST_F(Installed, ExampleIsBuiltByCMakeAndStreams) {
    const std::string folder = prefix_ + "/project";
    fs::create_directories(folder);
    std::ofstream(folder + "/CMakeLists.txt") << "cmake_minimum_required(VERSION 3.25)\n"
                                                 "project(stream C)\n"
                                                 "find_package(sluice 0.1 REQUIRED)\n"
                                                 "add_executable(stream "
                                              << example()
                                              << ")\n"
                                                 "target_link_libraries(stream PRIVATE sluice::sluice)\n";
    const std::string cmake = std::string(SLUICE_CMAKE) + " ";
    const ChildResult built =
        shell(cmake + "-S " + folder + " -B " + folder + "/build -DCMAKE_PREFIX_PATH=" + prefix_ + " && " +
              cmake + "--build " + folder + "/build");
    ASSERT_EQ(built.exit_code, 0) << built.out << built.err;
    expect_streams(folder + "/build/stream");
}

TEST_F(Installed, ProgramFindsItsModel) {
    const ChildResult run = run_child(prefix_ + "/bin/sluice", {"run", "-n", "4", "--temp", "0"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
}

} // namespace
} // namespace sluice::test
