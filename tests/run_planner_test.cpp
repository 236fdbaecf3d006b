// What is decided for a run, on machines and models that are only imagined.

#include "engine/run_planner.h"
#include "storage/memory_facts.h"
#include "telemetry/plan_text.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20U;
constexpr uint64_t kGiB = uint64_t{1} << 30U;

/// A model of 30 billion weights: 17 GiB of experts, 1.2 GiB dense, a table of 0.5 GiB.
struct Model {
    uint64_t dense = 1200 * kMiB;
    uint64_t table = 500 * kMiB;
    uint64_t experts = 17 * kGiB;
    uint64_t working_set = 900 * kMiB;
    uint64_t minimum = 20 * kMiB;
    uint64_t context_per_1024 = 96 * kMiB;
    uint64_t compute_per_512 = 300 * kMiB;

    NeedsOf needs() const {
        return [*this](const ModelOptions &model, const SessionOptions &session,
                       bool streaming) -> Result<MemoryNeeds> {
            MemoryNeeds needs;
            const uint32_t context = session.context_tokens > 0 ? session.context_tokens : 4096;
            needs.context_tokens = context;
            needs.program_bytes = 60 * kMiB;
            needs.context_bytes = context_per_1024 * context / 1024;
            needs.compute_bytes = compute_per_512 * session.ubatch_tokens / 512;
            needs.dense_bytes = dense + (streaming && model.row_stream ? 0 : table);
            if (!streaming) {
                needs.dense_bytes += experts;
                return needs;
            }
            needs.row_table_bytes = model.row_stream ? table : 0;
            needs.expert_bytes = experts;
            needs.cache_minimum_bytes = minimum;
            needs.cache_useful_bytes = experts;
            needs.working_set_bytes = working_set;
            return needs;
        };
    }
};

RunPlan decided(const PlanRequest &request, const PlanFacts &facts, const Model &model = {}) {
    auto plan = decide(request, facts, model.needs());
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? *plan : RunPlan{};
}

bool has_flag(const RunPlan &plan, const std::string &flag) {
    return std::any_of(plan.choices.begin(), plan.choices.end(),
                       [&flag](const PlanChoice &choice) { return choice.flag.find(flag) == 0; });
}

TEST(RunPlan, PhoneOf12GiBStreamsWithACacheOfWhatIsLeft) {
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 7 * kGiB, .cores = 4});
    EXPECT_EQ(plan.model.stream, StreamMode::Force);
    EXPECT_FALSE(plan.model.row_stream) << "one token's experts fit beside the tables";
    EXPECT_GT(*plan.model.cache_bytes, 3 * kGiB);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    EXPECT_GT(plan.peak_bytes, *plan.budget_bytes * 98 / 100) << "what is there is used";
    EXPECT_EQ(plan.session.threads, 4);
    EXPECT_TRUE(plan.warnings.empty());
}

TEST(RunPlan, PhoneOf8GiBStreamsRowsToo) {
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 3200 * kMiB, .cores = 4});
    EXPECT_TRUE(plan.model.row_stream);
    EXPECT_TRUE(has_flag(plan, "--row-stream"));
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
}

TEST(RunPlan, LaptopOf16GiBHoldsWhatFits) {
    Model small;
    small.experts = 6 * kGiB;
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 13 * kGiB, .cores = 8}, small);
    EXPECT_EQ(plan.model.stream, StreamMode::Never);
    EXPECT_FALSE(plan.model.cache_bytes);
    EXPECT_TRUE(has_flag(plan, "--no-moe-stream"));
}

/// The budget on a machine whose /proc and /sys say `facts`.
uint64_t budget_of(const storage::MemoryFacts &facts) {
    return *decided({}, {.has_experts = true, .usable_memory = storage::usable_memory(facts)}).budget_bytes;
}

TEST(RunPlan, LaptopOf16GiBStreamsWhatDoesNotFit) {
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 12 * kGiB, .cores = 8});
    EXPECT_EQ(plan.model.stream, StreamMode::Force) << "17 GiB of experts";
    EXPECT_FALSE(plan.model.row_stream);
    EXPECT_LE(plan.peak_bytes, 12 * kGiB - 12 * kGiB / 16);
    EXPECT_GT(*plan.model.cache_bytes, 8 * kGiB);
    EXPECT_EQ(plan.session.context_tokens, 4096U);
}

TEST(RunPlan, PhoneOf8GiBThatOthersUseShrinksUbatchBeforeContext) {
    const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 2150 * kMiB, .cores = 4});
    EXPECT_TRUE(plan.model.row_stream);
    EXPECT_LT(plan.session.ubatch_tokens, 512U);
    EXPECT_EQ(plan.session.context_tokens, 4096U);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    ASSERT_EQ(plan.warnings.size(), 1U) << "the cache is below one token's working set";
}

TEST(RunPlan, ContainerIsHeldToWhatItsLimitLeaves) {
    // Whichever version of control groups it is, the facts look the same: storage_memory_test reads both.
    const storage::MemoryFacts container{
        .total = 64 * kGiB, .available = 50 * kGiB, .cgroup_limit = 6 * kGiB, .cgroup_usage = 2 * kGiB};
    EXPECT_EQ(budget_of(container), 4 * kGiB - 256 * kMiB);
}

TEST(RunPlan, ContainerLargerThanItsMachineIsHeldToTheMachine) {
    EXPECT_EQ(budget_of({.total = 8 * kGiB, .available = 3 * kGiB, .cgroup_limit = 32 * kGiB}),
              3 * kGiB - 256 * kMiB);
}

TEST(RunPlan, ContainerOfUnknownUsageIsHeldToItsLimit) {
    EXPECT_EQ(budget_of({.cgroup_limit = 4 * kGiB}), 4 * kGiB - 256 * kMiB);
}

TEST(RunPlan, CeilingThatIsTheContainersLimitIsNotWarnedAbout) {
    const PlanFacts facts{.has_experts = true, .usable_memory = 2990 * kMiB, .held_now = 10 * kMiB};
    const RunPlan plan = decided({.ram_bytes = 3000 * kMiB}, facts);
    EXPECT_TRUE(plan.warnings.empty()) << plan.warnings[0];
    EXPECT_GT(plan.peak_bytes, 2900 * kMiB) << "all of it is used";
}

TEST(RunPlan, MemoryAlreadyHeldCountsAsOurs) {
    const RunPlan plan =
        decided({}, {.has_experts = true, .usable_memory = 4 * kGiB, .held_now = 300 * kMiB});
    EXPECT_EQ(*plan.budget_bytes, 4 * kGiB - 256 * kMiB + 300 * kMiB);
}

TEST(RunPlan, CacheStopsWhereEveryExpertFits) {
    const RunPlan plan =
        decided({.model = {.stream = StreamMode::Force}}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_EQ(*plan.model.cache_bytes, 17 * kGiB);
}

TEST(RunPlan, CeilingAskedForIsTheBudget) {
    const RunPlan plan = decided({.ram_bytes = 4 * kGiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_EQ(plan.model.stream, StreamMode::Force) << "17 GiB do not fit into the 4 GiB that are allowed";
    EXPECT_LE(plan.peak_bytes, 4 * kGiB);
    EXPECT_EQ(plan.budget_source, "--ram-mb");
}

TEST(RunPlan, CeilingAboveWhatThereIsIsKeptAndSaidSo) {
    const RunPlan plan = decided({.ram_bytes = 20 * kGiB}, {.has_experts = true, .usable_memory = 7 * kGiB});
    ASSERT_FALSE(plan.warnings.empty());
    EXPECT_NE(plan.warnings[0].find("--ram-mb 20480 is more than there is"), std::string::npos);
}

TEST(RunPlan, BelowOneTokensWorkingSetSaysWhatWouldFixIt) {
    const RunPlan plan =
        decided({.ram_bytes = 2800 * kMiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    ASSERT_EQ(plan.warnings.size(), 1U);
    EXPECT_NE(plan.warnings[0].find("smaller than the 900 MiB that one token touches"), std::string::npos);
    EXPECT_NE(plan.warnings[0].find("--ram-mb "), std::string::npos);

    // And the number is right.
    const size_t at = plan.warnings[0].find("--ram-mb ") + 9;
    const uint64_t enough = std::stoull(plan.warnings[0].substr(at)) * kMiB;
    const RunPlan fixed =
        decided({.model = {.row_stream = plan.model.row_stream}, .ram_bytes = enough, .rows_given = true},
                {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_TRUE(fixed.warnings.empty()) << fixed.warnings[0];
}

TEST(RunPlan, UbatchAndContextShrinkOnlyWhereNothingElseFits) {
    const RunPlan plan =
        decided({.ram_bytes = 1600 * kMiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_LT(plan.session.ubatch_tokens, 512U);
    EXPECT_LE(plan.peak_bytes, 1600 * kMiB);
    const RunPlan ample = decided({.ram_bytes = 3 * kGiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_EQ(ample.session.ubatch_tokens, 512U);
    EXPECT_EQ(ample.session.context_tokens, 4096U);
}

TEST(RunPlan, RefusalNamesWhatIsMissingAndTheFlagThatFreesTheMost) {
    const auto plan = decide({.model = {.stream = StreamMode::Force},
                              .session = {.context_tokens = 32768},
                              .ram_bytes = 2 * kGiB,
                              .ubatch_given = true},
                             {.has_experts = true, .usable_memory = 60 * kGiB}, Model{}.needs());
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::OutOfMemory);
    EXPECT_NE(plan.error().message.find("MiB are missing"), std::string::npos) << plan.error().message;
    EXPECT_NE(plan.error().message.find("--ctx-size 8192 would free the most"), std::string::npos)
        << plan.error().message;
}

TEST(RunPlan, FlagsGivenAreKept) {
    PlanRequest request{.model = {.stream = StreamMode::Force, .cache_bytes = 700 * kMiB, .io_threads = 9},
                        .session = {.context_tokens = 2048, .ubatch_tokens = 100, .threads = 3},
                        .rows_given = true,
                        .io_threads_given = true,
                        .ubatch_given = true};
    request.model.row_stream = true;
    const RunPlan plan = decided(
        request,
        {.has_experts = true, .usable_memory = 60 * kGiB, .cores = 8, .reading = ReadingFact{.width = 16}});
    EXPECT_EQ(*plan.model.cache_bytes, 700 * kMiB);
    EXPECT_EQ(plan.model.io_threads, 9);
    EXPECT_EQ(plan.session.context_tokens, 2048U);
    EXPECT_EQ(plan.session.ubatch_tokens, 100U);
    EXPECT_EQ(plan.session.threads, 3);
    EXPECT_TRUE(plan.model.row_stream);
}

TEST(RunPlan, DepthGivenIsKeptWhateverAProbeFound) {
    const RunPlan plan =
        decided({.model = {.io_depth = 16}, .io_depth_given = true},
                {.has_experts = true, .usable_memory = 4 * kGiB, .reading = ReadingFact{.width = 12}});
    EXPECT_EQ(plan.model.io_engine, IoEngine::Auto);
    EXPECT_EQ(plan.model.io_depth, 16);
    EXPECT_TRUE(has_flag(plan, "--io-depth 16"));
}

TEST(RunPlan, UnknownMemoryStreamsAndSaysThatItWasNotMeasured) {
    const RunPlan plan = decided({}, {.has_experts = true});
    EXPECT_EQ(plan.model.stream, StreamMode::Force);
    EXPECT_EQ(*plan.model.cache_bytes, 4 * 900 * kMiB);
    EXPECT_TRUE(std::any_of(plan.choices.begin(), plan.choices.end(),
                            [](const PlanChoice &choice) { return !choice.measured; }));
    EXPECT_FALSE(plan.budget_bytes);
}

TEST(RunPlan, UnknownMemoryKeepsToACeilingThatIsGiven) {
    const RunPlan plan = decided({.ram_bytes = 3 * kGiB}, {.has_experts = true});
    EXPECT_EQ(plan.model.stream, StreamMode::Force);
    EXPECT_LE(plan.peak_bytes, 3 * kGiB);
    EXPECT_TRUE(plan.warnings.empty()) << plan.warnings[0];
}

TEST(RunPlan, DeviceThatWasNotProbedIsSaidToBeUnmeasured) {
    const auto io_choice = [](const PlanFacts &facts) {
        const RunPlan plan = decided({}, facts);
        return *std::find_if(plan.choices.begin(), plan.choices.end(),
                             [](const PlanChoice &choice) { return choice.flag.starts_with("--io-"); });
    };
    EXPECT_FALSE(io_choice({.has_experts = true, .usable_memory = 4 * kGiB}).measured);
    const PlanChoice probed =
        io_choice({.has_experts = true, .usable_memory = 4 * kGiB, .reading = ReadingFact{.width = 12}});
    EXPECT_TRUE(probed.measured);
    EXPECT_EQ(probed.flag, "--io-engine threads --io-threads 12");
}

TEST(RunPlan, IoUringIsChosenWhereAProbeFoundItBest) {
    const RunPlan plan = decided({}, {.has_experts = true,
                                      .usable_memory = 4 * kGiB,
                                      .reading = ReadingFact{.engine = IoEngine::Uring, .width = 8}});
    EXPECT_EQ(plan.model.io_engine, IoEngine::Uring);
    EXPECT_EQ(plan.model.io_depth, 8);
    EXPECT_TRUE(has_flag(plan, "--io-engine uring --io-depth 8"));
}

TEST(RunPlan, DenseModelIsResident) {
    Model dense;
    dense.experts = 0;
    const RunPlan plan = decided({}, {.has_experts = false, .usable_memory = kGiB}, dense);
    EXPECT_EQ(plan.model.stream, StreamMode::Never);
    EXPECT_FALSE(has_flag(plan, "--cache-mb"));
}

TEST(RunPlan, EveryChoiceHasAReasonAndTheCommandSaysThemAll) {
    RunPlan plan = decided({.model = {.path = "a model.gguf"}},
                           {.has_experts = true, .usable_memory = 5 * kGiB, .cores = 2});
    for (const PlanChoice &choice : plan.choices) {
        EXPECT_FALSE(choice.reason.empty()) << choice.flag;
    }
    const std::string command = telemetry::plan_command(plan);
    EXPECT_EQ(command.find("sluice run -m 'a model.gguf' "), 0U) << command;
    for (const char *flag : {"--moe-stream", "--cache-mb ", "--threads 2", "--io-depth ", "--ctx-size 4096",
                             "--ubatch-size 512"}) {
        EXPECT_NE(command.find(flag), std::string::npos) << command;
    }
}

} // namespace
} // namespace sluice::engine
