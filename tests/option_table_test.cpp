// The table of streaming options: names, values, environment.
#include "options/option_table.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace sluice::options {
namespace {

using testing::HasSubstr;

TEST(StreamOptions, HaveNamesOfTheirOwnAndASentence) {
    std::set<std::string_view> names;
    for (const StreamOption &option : stream_options()) {
        EXPECT_TRUE(names.insert(option.name).second) << option.name;
        EXPECT_FALSE(option.help.empty()) << option.name;
        EXPECT_NE(option.set, nullptr) << option.name;
    }
}

TEST(StreamOptions, SetWhatTheyAreCalledAfter) {
    PlanRequest request;
    for (const auto &[name, value] :
         std::initializer_list<std::pair<const char *, const char *>>{{"ram-mb", "3000"},
                                                                      {"moe-stream", "on"},
                                                                      {"cache-mb", "2000"},
                                                                      {"cache-policy", "lru"},
                                                                      {"dense-weights", "mmap"},
                                                                      {"row-stream", "on"},
                                                                      {"row-stream-mb", "0.5"},
                                                                      {"lookahead", "off"},
                                                                      {"io-engine", "threads"},
                                                                      {"io-depth", "8"},
                                                                      {"io-threads", "3"},
                                                                      {"direct", "off"},
                                                                      {"hot-set", "off"},
                                                                      {"n-expert-used", "2"},
                                                                      {"drop-cold", "0.5"},
                                                                      {"substitute", "0.25"}}) {
        const Status set = set_stream_option(request, name, value);
        EXPECT_TRUE(set) << set.error().message;
    }
    EXPECT_EQ(request.ram_bytes, uint64_t{3000} << 20U);
    EXPECT_EQ(request.model.stream, StreamMode::Force);
    EXPECT_EQ(request.model.cache_bytes, uint64_t{2000} << 20U);
    EXPECT_EQ(request.model.cache_policy, CachePolicy::Lru);
    EXPECT_EQ(request.model.dense_weights, DenseWeights::Mmap);
    EXPECT_TRUE(request.model.row_stream);
    EXPECT_TRUE(request.rows_given);
    EXPECT_EQ(request.model.row_window_bytes, uint64_t{1} << 19U);
    EXPECT_EQ(request.model.lookahead, 0U);
    EXPECT_EQ(request.model.io_engine, IoEngine::Threads);
    EXPECT_EQ(request.model.io_depth, 8);
    EXPECT_EQ(request.model.io_threads, 3);
    EXPECT_FALSE(request.model.direct);
    EXPECT_EQ(request.model.hot_set_folder, "");
    EXPECT_EQ(request.model.lossy.n_expert_used, 2U);
    EXPECT_FLOAT_EQ(request.model.lossy.drop_cold, 0.5F);
    EXPECT_FLOAT_EQ(request.model.lossy.substitute, 0.25F);
}

TEST(StreamOptions, TakeNothingElseAndSayWhatTheyTake) {
    PlanRequest request;
    for (const auto &[name, value] : std::initializer_list<std::pair<const char *, const char *>>{
             {"ram-mb", "0"},          {"ram-mb", "-1"},         {"ram-mb", "12x"},
             {"ram-mb", ""},           {"moe-stream", "maybe"},  {"cache-mb", "0.5"},
             {"cache-policy", "fifo"}, {"dense-weights", "0"},   {"row-stream", "2"},
             {"row-stream-mb", "0"},   {"row-stream-mb", "nan"}, {"lookahead", "1025"},
             {"io-engine", "1"},       {"io-depth", "1025"},     {"io-threads", "65"},
             {"direct", ""},           {"hot-set", "x"},         {"n-expert-used", "0"},
             {"drop-cold", "inf"},     {"substitute", "1.5"},    {"ram-mb", "99999999999999999999"}}) {
        const Status set = set_stream_option(request, name, value);
        ASSERT_FALSE(set) << name << " " << value;
        EXPECT_EQ(set.error().code, ErrorCode::InvalidArgument);
        EXPECT_THAT(set.error().message, HasSubstr(std::string(name) + ": '" + value + "' is not "));
    }
    EXPECT_FALSE(request.rows_given) << "what is refused changes nothing";
    EXPECT_THAT(set_stream_option(request, "cash-mb", "1").error().message, HasSubstr("'cash-mb'"));
}

class StreamVariables : public testing::Test {
protected:
    void TearDown() override {
        ::unsetenv("SLUICE_CACHE_MB");
        ::unsetenv("SLUICE_CASH_MB");
    }
    PlanRequest request_;
};

TEST_F(StreamVariables, AreNamedAsTheOptions) {
    ::setenv("SLUICE_CACHE_MB", "7", 1);
    const Status read = read_environment(request_, {});
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(request_.model.cache_bytes, uint64_t{7} << 20U);
}

TEST_F(StreamVariables, WithAWrongValueAreNamed) {
    ::setenv("SLUICE_CACHE_MB", "lots", 1);
    const Status read = read_environment(request_, {});
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("SLUICE_CACHE_MB"));
    EXPECT_THAT(read.error().message, HasSubstr("'lots'"));
}

TEST_F(StreamVariables, WithAWrongNameAreNoSilence) {
    ::setenv("SLUICE_CASH_MB", "7", 1);
    const Status read = read_environment(request_, {});
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("SLUICE_CASH_MB"));
    const std::string_view others[] = {"SLUICE_CASH_MB"};
    EXPECT_TRUE(read_environment(request_, others));
}

} // namespace
} // namespace sluice::options
