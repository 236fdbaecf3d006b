// What is decided for a run, on machines and models that are only imagined.

#include "planning/run_planner.h"
#include "platform/memory_facts.h"
#include "session/planner.h"
#include "support/imagined_model.h"
#include "telemetry/plan_text.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::planning {
namespace {

using test::decided;
using test::has_flag;
using test::kGiB;
using test::reason_of;
using Model = test::ImaginedModel;

uint64_t taken_by(const std::string &what, const RunPlan &plan) {
    const auto found = std::find_if(plan.memory.begin(), plan.memory.end(),
                                    [&what](const auto &part) { return part.what == what; });
    return found == plan.memory.end() ? 0 : found->bytes;
}

TEST(RunPlan, PhoneOf12GiBStreamsWithACacheOfWhatIsLeft) {
    const RunPlan plan =
        decided({}, {.has_experts = true, .usable_memory = 7 * kGiB, .processors = {.cores = 4}});
    EXPECT_EQ(plan.model.stream, StreamMode::Force);
    EXPECT_GT(*plan.model.cache_bytes, 3 * kGiB);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    EXPECT_GT(plan.peak_bytes, *plan.budget_bytes * 98 / 100) << "what is there is used";
    EXPECT_EQ(plan.session.threads, 4);
    EXPECT_TRUE(plan.warnings.empty());
}

TEST(RunPlan, PhoneOf8GiBStreamsRowsToo) {
    const RunPlan plan =
        decided({}, {.has_experts = true, .usable_memory = 3200 * kMiB, .processors = {.cores = 4}});
    EXPECT_TRUE(plan.model.row_stream);
    EXPECT_TRUE(has_flag(plan, "--row-stream"));
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
}

TEST(RunPlan, LaptopOf16GiBStreamsWhatFitsIntoACacheOfAllOfIt) {
    Model small;
    small.experts = 6 * kGiB;
    const PlanFacts laptop{.has_experts = true, .usable_memory = 13 * kGiB, .processors = {.cores = 8}};
    const RunPlan plan = decided({}, laptop, small);
    EXPECT_EQ(plan.model.stream, StreamMode::Force);
    EXPECT_EQ(*plan.model.cache_bytes, 6 * kGiB);
    EXPECT_FALSE(plan.model.row_stream);
    EXPECT_NE(reason_of("--moe-stream", plan).find("answers before all are read"), std::string::npos);
}

TEST(RunPlan, WhatRunsForLongHoldsWhatFits) {
    Model small;
    small.experts = 6 * kGiB;
    const PlanFacts laptop{.has_experts = true, .usable_memory = 13 * kGiB, .processors = {.cores = 8}};
    const RunPlan plan = decided({.long_lived = true}, laptop, small);
    EXPECT_EQ(plan.model.stream, StreamMode::Never);
    EXPECT_FALSE(plan.model.cache_bytes);
    EXPECT_NE(reason_of("--no-moe-stream", plan).find("runs for long"), std::string::npos);
    EXPECT_EQ(decided({.long_lived = true}, laptop).model.stream, StreamMode::Force) << "17 GiB of experts";
}

/// The facts of a machine whose /proc and /sys say `memory`.
PlanFacts facts_of(const platform::MemoryFacts &memory) {
    return {.has_experts = true,
            .usable_memory = platform::usable_memory(memory),
            .group_limit = residency::bounding_group_limit(memory)};
}

uint64_t budget_of(const platform::MemoryFacts &memory) {
    return *decided({}, facts_of(memory)).budget_bytes;
}

TEST(RunPlan, LaptopOf16GiBStreamsWhatDoesNotFit) {
    const RunPlan plan =
        decided({}, {.has_experts = true, .usable_memory = 12 * kGiB, .processors = {.cores = 8}});
    EXPECT_EQ(plan.model.stream, StreamMode::Force) << "17 GiB of experts";
    EXPECT_LE(plan.peak_bytes, 12 * kGiB - 12 * kGiB / 16);
    EXPECT_GT(*plan.model.cache_bytes, 8 * kGiB);
    EXPECT_EQ(plan.session.context_tokens, 4096U);
}

TEST(RunPlan, PhoneOf8GiBThatOthersUseShrinksUbatchBeforeContext) {
    const RunPlan plan =
        decided({}, {.has_experts = true, .usable_memory = 2150 * kMiB, .processors = {.cores = 4}});
    EXPECT_TRUE(plan.model.row_stream);
    EXPECT_LT(plan.session.ubatch_tokens, 512U);
    EXPECT_EQ(plan.session.context_tokens, 4096U);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    ASSERT_EQ(plan.warnings.size(), 1U) << "the cache is below one token's working set";
}

TEST(RunPlan, ContainerIsHeldToWhatItsLimitLeaves) {
    // Whichever version of control groups it is, the facts look the same: storage_memory_test reads both.
    const platform::MemoryFacts container{
        .total = 64 * kGiB, .available = 50 * kGiB, .groups = {{.limit = 6 * kGiB, .usage = 2 * kGiB}}};
    EXPECT_EQ(budget_of(container), 4 * kGiB - 256 * kMiB);
}

TEST(RunPlan, ContainerLargerThanItsMachineIsHeldToTheMachine) {
    EXPECT_EQ(budget_of({.total = 8 * kGiB, .available = 3 * kGiB, .groups = {{.limit = 32 * kGiB}}}),
              3 * kGiB - 256 * kMiB);
}

TEST(RunPlan, ContainerOfUnknownUsageIsHeldToItsLimit) {
    EXPECT_EQ(budget_of({.groups = {{.limit = 4 * kGiB}}}), 4 * kGiB - 256 * kMiB);
}

TEST(RunPlan, SmallGroupIsHeldToAllButAShareOfItself) {
    // A model of 33 MiB in a group of 200.
    const Model tiny{.dense = kMiB,
                     .table = kMiB,
                     .experts = 14 * kMiB,
                     .working_set = 2 * kMiB,
                     .minimum = kMiB,
                     .context_per_1024 = kMiB,
                     .compute_per_512 = 3 * kMiB,
                     .program = 10 * kMiB};
    const platform::MemoryFacts memory{
        .total = 64 * kGiB, .available = 50 * kGiB, .groups = {{.limit = 200 * kMiB, .usage = kMiB}}};
    const RunPlan plan = decided({}, facts_of(memory), tiny);
    EXPECT_EQ(*plan.model.cache_bytes, 14 * kMiB) << "it fits";
    EXPECT_GT(*plan.budget_bytes, 180 * kMiB);
    EXPECT_EQ(plan.budget_source,
              "199 MiB can be used now, 13 MiB of them are left to others in the control group of 200 MiB");
    EXPECT_NE(decided({}, facts_of({.available = 50 * kGiB})).budget_source.find("are left to the system"),
              std::string::npos);
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

TEST(RunPlan, CacheOfEveryExpertIsRoundedUpToWholeMiB) {
    Model small;
    small.experts = 4 * kMiB + kMiB / 2;
    small.working_set = small.experts;
    small.minimum = kMiB;
    const RunPlan plan = decided({.model = {.stream = StreamMode::Force}},
                                 {.has_experts = true, .usable_memory = 60 * kGiB}, small);
    EXPECT_EQ(*plan.model.cache_bytes, 5 * kMiB);
    EXPECT_TRUE(has_flag(plan, "--cache-mb 5"));
    EXPECT_TRUE(plan.warnings.empty()) << plan.warnings[0];
    EXPECT_EQ(taken_by("expert cache", plan), small.experts) << "no more than there is to hold";
}

TEST(RunPlan, CacheThatEveryExpertJustFitsInKeepsToTheBudget) {
    Model small;
    small.experts = 100 * kMiB + kMiB / 2;
    small.working_set = small.minimum = kMiB;
    const PlanRequest forced{.model = {.stream = StreamMode::Force}, .rows_given = true};
    const RunPlan ample = decided(forced, {.has_experts = true, .usable_memory = 60 * kGiB}, small);
    PlanRequest just = forced;
    just.ram_bytes = ample.peak_bytes;
    const RunPlan plan = decided(just, {.has_experts = true, .usable_memory = 60 * kGiB}, small);
    EXPECT_EQ(*plan.model.cache_bytes, 101 * kMiB);
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    just.ram_bytes = ample.peak_bytes - kMiB;
    const RunPlan less = decided(just, {.has_experts = true, .usable_memory = 60 * kGiB}, small);
    EXPECT_LT(*less.model.cache_bytes, small.experts);
    EXPECT_LE(less.peak_bytes, *less.budget_bytes);
}

TEST(RunPlan, RowsAreStreamedWhereTheExpertCacheGetsLarger) {
    const PlanFacts laptop{.has_experts = true, .usable_memory = 12 * kGiB};
    const RunPlan without = decided({.rows_given = true}, laptop);
    ASSERT_FALSE(without.model.row_stream);
    const RunPlan plan = decided({}, laptop);
    EXPECT_TRUE(plan.model.row_stream);
    EXPECT_GE(*plan.model.cache_bytes, *without.model.cache_bytes + 430 * kMiB) << "a table less its window";
    EXPECT_LE(plan.peak_bytes, *plan.budget_bytes);
    EXPECT_NE(reason_of("--row-stream", plan).find("the expert cache gets larger: 500 MiB of tables"),
              std::string::npos)
        << reason_of("--row-stream", plan);
}

TEST(RunPlan, RowsAreLeftInMemoryWhereTheCacheHoldsEveryExpert) {
    const RunPlan plan =
        decided({.model = {.stream = StreamMode::Force}}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_FALSE(plan.model.row_stream);
}

TEST(RunPlan, RowsAreLeftInMemoryWhereTheyBringNothing) {
    Model small_table;
    for (const uint64_t table : {uint64_t{0}, 30 * kMiB, 64 * kMiB + kMiB / 2}) {
        small_table.table = table; // the window would hold all, or nearly
        const RunPlan plan = decided({}, {.has_experts = true, .usable_memory = 7 * kGiB}, small_table);
        EXPECT_FALSE(plan.model.row_stream) << table;
    }
}

TEST(RunPlan, RowsAreLeftInMemoryWhereTheCacheDoesNotDependOnThem) {
    const PlanFacts phone{.has_experts = true, .usable_memory = 7 * kGiB};
    EXPECT_FALSE(decided({.model = {.cache_bytes = kGiB}}, phone).model.row_stream) << "its size is given";
    EXPECT_FALSE(decided({}, {.has_experts = true}).model.row_stream) << "memory is unknown";
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

TEST(RunPlan, UbatchAndContextShrinkOnlyWhereNothingElseFits) {
    const RunPlan plan =
        decided({.ram_bytes = 1600 * kMiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_LT(plan.session.ubatch_tokens, 512U);
    EXPECT_LE(plan.peak_bytes, 1600 * kMiB);
    const RunPlan ample = decided({.ram_bytes = 3 * kGiB}, {.has_experts = true, .usable_memory = 60 * kGiB});
    EXPECT_EQ(ample.session.ubatch_tokens, 512U);
    EXPECT_EQ(ample.session.context_tokens, 4096U);
}

TEST(RunPlan, FlagsGivenAreKept) {
    PlanRequest request{.model = {.stream = StreamMode::Force, .cache_bytes = 700 * kMiB, .io_threads = 9},
                        .session = {.context_tokens = 2048, .ubatch_tokens = 100, .threads = 3},
                        .rows_given = true,
                        .ubatch_given = true};
    request.model.row_stream = true;
    const RunPlan plan =
        decided(request, {.has_experts = true, .usable_memory = 60 * kGiB, .processors = {.cores = 8}});
    EXPECT_EQ(*plan.model.cache_bytes, 700 * kMiB);
    EXPECT_EQ(plan.model.io_threads, 9);
    EXPECT_EQ(plan.session.context_tokens, 2048U);
    EXPECT_EQ(plan.session.ubatch_tokens, 100U);
    EXPECT_EQ(plan.session.threads, 3);
    EXPECT_TRUE(plan.model.row_stream);
}

TEST(RunPlan, FewerThreadsAreTriedUnlessTheirNumberIsGiven) {
    const PlanFacts facts{.has_experts = true, .usable_memory = 4 * kGiB};
    EXPECT_TRUE(decided({}, facts).session.try_fewer_threads);
    EXPECT_FALSE(decided({.session = {.threads = 2}}, facts).session.try_fewer_threads);
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

TEST(RunPlan, DenseModelIsResident) {
    Model dense;
    dense.experts = 0;
    const RunPlan plan = decided({}, {.has_experts = false, .usable_memory = kGiB}, dense);
    EXPECT_EQ(plan.model.stream, StreamMode::Never);
    EXPECT_FALSE(has_flag(plan, "--cache-mb"));
}

/// What is decided about compute threads.
PlanChoice thread_choice(const RunPlan &plan) {
    const auto choice =
        std::find_if(plan.choices.begin(), plan.choices.end(),
                     [](const PlanChoice &candidate) { return candidate.flag.starts_with("--threads "); });
    return choice == plan.choices.end() ? PlanChoice{} : *choice;
}

TEST(RunPlan, ThreadsAreWhatTheProcessorsAllowAndTheReasonSaysWhichFactDecided) {
    const RunPlan plan =
        decided({}, {.usable_memory = 60 * kGiB, .processors = {.cores = 16, .allowed = 32, .quota = 2.0}});
    EXPECT_EQ(plan.session.threads, 2);
    EXPECT_EQ(thread_choice(plan).reason,
              "the control group allows 2.0 cores; fewer are tried while it runs");
    EXPECT_TRUE(plan.warnings.empty());
}

TEST(RunPlan, ThreadsGivenAboveWhatTheProcessorsAllowAreKeptAndWarnedAbout) {
    const auto warnings = [](int threads, const platform::Processors &processors) {
        const RunPlan plan = decided({.session = {.threads = threads}},
                                     {.usable_memory = 60 * kGiB, .processors = processors});
        EXPECT_EQ(plan.session.threads, threads);
        EXPECT_EQ(thread_choice(plan).reason, "given");
        return plan.warnings.size();
    };
    EXPECT_EQ(warnings(4, {.cores = 16, .allowed = 32, .quota = 2.0}), 1U);
    EXPECT_EQ(warnings(4, {.cores = 1, .allowed = 2}), 1U);
    EXPECT_EQ(warnings(2, {.cores = 1, .allowed = 2}), 0U);
}

TEST(RunPlan, EveryChoiceHasAReasonAndTheCommandSaysAllThatIsDecided) {
    RunPlan plan = decided({.model = {.path = "a model.gguf"}},
                           {.has_experts = true, .usable_memory = 5 * kGiB, .processors = {.cores = 2}});
    for (const PlanChoice &choice : plan.choices) {
        EXPECT_FALSE(choice.reason.empty()) << choice.flag;
    }
    const std::string command = telemetry::plan_command(plan);
    EXPECT_EQ(command.find("sluice run -m 'a model.gguf' "), 0U) << command;
    for (const char *flag :
         {"--moe-stream", "--cache-mb ", "--ctx-size 4096", "--ubatch-size 512", "--no-hot-set"}) {
        EXPECT_NE(command.find(flag), std::string::npos) << command;
    }
}

TEST(RunPlan, CommandLeavesToTheRunWhatItFindsOut) {
    const PlanFacts facts{.has_experts = true, .usable_memory = 5 * kGiB, .processors = {.cores = 2}};
    const RunPlan open = decided({}, facts);
    EXPECT_EQ(thread_choice(open).flag, "--threads 2") << "it begins so";
    for (const char *flag : {"--threads", "--io-", "--lookahead"}) {
        EXPECT_EQ(telemetry::plan_command(open).find(flag), std::string::npos) << flag;
    }
    const RunPlan given =
        decided({.model = {.io_depth = 4, .lookahead = 0}, .session = {.threads = 2}}, facts);
    for (const char *flag : {"--threads 2", "--io-engine uring --io-depth 4", "--lookahead off"}) {
        EXPECT_NE(telemetry::plan_command(given).find(flag), std::string::npos) << flag;
    }
}

/// What a plan's command asks for.
PlanRequest as_command(const RunPlan &plan, const PlanRequest &request) {
    PlanRequest again = request;
    again.model.stream = plan.model.stream;
    again.model.cache_bytes = plan.model.cache_bytes;
    again.model.row_stream = plan.model.row_stream;
    again.rows_given = plan.model.row_stream;
    again.session.context_tokens = plan.session.context_tokens;
    again.session.ubatch_tokens = plan.session.ubatch_tokens;
    again.ubatch_given = true;
    return again;
}

TEST(RunPlan, CommandComesToTheSamePlanThoughAMachineIsNeverTwiceTheSame) {
    Model a_little_larger;
    a_little_larger.program += kMiB / 2;
    for (const uint64_t mib : {1600, 2100, 2800, 4096, 12000, 60000}) {
        for (const bool ceiling : {false, true}) {
            SCOPED_TRACE(std::to_string(mib) + (ceiling ? " asked for" : " free"));
            const PlanRequest request{.ram_bytes =
                                          ceiling ? std::optional<uint64_t>(mib * kMiB) : std::nullopt};
            PlanFacts facts{.has_experts = true, .usable_memory = (ceiling ? 61000 : mib + 300) * kMiB};
            const RunPlan plan = decided(request, facts);
            facts.usable_memory = *facts.usable_memory - 50 * kMiB;
            const RunPlan again = decided(as_command(plan, request), facts, a_little_larger);
            EXPECT_EQ(telemetry::plan_command(again), telemetry::plan_command(plan));
        }
    }
}

TEST(RunPlan, CommandKeepsTheCeiling) {
    const RunPlan plan =
        decided({.ram_bytes = 3000 * kMiB}, {.has_experts = true, .usable_memory = 8 * kGiB});
    EXPECT_NE(telemetry::plan_command(plan).find("--ram-mb 3000"), std::string::npos);
}

// -- reasons
// ------------------------------------------------------------------------------------------------------

TEST(RunPlanReason, OfStreamingBesideASmallCacheIsNotThatEverythingFits) {
    Model small;
    small.experts = kGiB;
    const PlanFacts facts{.has_experts = true, .usable_memory = 60 * kGiB};
    const RunPlan plan = decided({.model = {.cache_bytes = 900 * kMiB}}, facts, small);
    EXPECT_EQ(plan.model.mode_reason, "--cache-mb 900 holds some of the 1024 MiB of experts");
    EXPECT_EQ(decided({.model = {.cache_bytes = 900 * kMiB}, .long_lived = true}, facts, small).model.stream,
              StreamMode::Force);
}

TEST(RunPlanReason, OfReadingSaysOnlyWhatIsFoundOut) {
    const PlanFacts facts{.has_experts = true, .usable_memory = 4 * kGiB};
    const auto reason = [&facts](const ModelOptions &model) {
        const RunPlan plan = decided({.model = model}, facts);
        std::string found;
        for (const PlanChoice &choice : plan.choices) {
            const bool reading =
                choice.reason.find("found out") != std::string::npos || choice.flag.starts_with("--io-");
            found += reading ? choice.reason : "";
        }
        return found;
    };
    EXPECT_EQ(reason({}), "how to read and whether to look ahead is found out while it runs");
    EXPECT_EQ(reason({.lookahead = 8}), "how to read is found out while it runs");
    EXPECT_EQ(reason({.io_engine = IoEngine::Uring}),
              "given; how many reads are in flight and whether to look ahead is found out while it runs");
    EXPECT_EQ(reason({.io_depth = 4}), "given; whether to look ahead is found out while it runs");
    EXPECT_EQ(reason({.io_threads = 4, .lookahead = 0}), "given");
    EXPECT_EQ(reason({.stream = StreamMode::Never}), "") << "nothing is read";
}

// -- reading
// ------------------------------------------------------------------------------------------------------

TEST(RunPlanReading, IsLeftToTheRunUnlessItIsGiven) {
    const RunPlan open = decided({}, {.has_experts = true, .usable_memory = 4 * kGiB});
    EXPECT_EQ(open.model.io_engine, IoEngine::Auto);
    EXPECT_EQ(open.model.io_depth, 0);
    EXPECT_EQ(open.model.io_threads, 0);
}

TEST(RunPlanReading, ANumberSaysWhichEngineIsMeant) {
    const PlanFacts facts{.has_experts = true, .usable_memory = 4 * kGiB};
    const RunPlan depth = decided({.model = {.io_depth = 16}}, facts);
    EXPECT_EQ(depth.model.io_engine, IoEngine::Uring) << "which says so where it can't be had";
    EXPECT_TRUE(has_flag(depth, "--io-engine uring --io-depth 16"));
    EXPECT_TRUE(has_flag(decided({.model = {.io_threads = 5}}, facts), "--io-engine threads --io-threads 5"));
}

TEST(RunPlanReading, WhatCannotBothBeMeantIsRefused) {
    const auto refused = [](const ModelOptions &model) {
        const auto plan =
            decide({.model = model}, {.has_experts = true, .usable_memory = 4 * kGiB}, Model{}.needs());
        return !plan && plan.error().code == ErrorCode::InvalidArgument &&
               plan.error().message.find("--io-threads") != std::string::npos &&
               plan.error().message.find("--io-depth") != std::string::npos;
    };
    EXPECT_TRUE(refused({.io_engine = IoEngine::Uring, .io_threads = 4}));
    EXPECT_TRUE(refused({.io_engine = IoEngine::Threads, .io_depth = 4}));
    EXPECT_TRUE(refused({.io_depth = 4, .io_threads = 4}));
}

TEST(RunPlanReading, WhatHasNoEffectIsSaid) {
    const auto warnings = [](const ModelOptions &model, bool has_experts) {
        Model imagined;
        if (!has_experts) {
            imagined.experts = imagined.minimum = imagined.working_set = 0;
        }
        return decided({.model = model}, {.has_experts = has_experts, .usable_memory = 60 * kGiB}, imagined)
            .warnings;
    };
    using testing::ElementsAre;
    const ModelOptions resident{
        .stream = StreamMode::Never, .cache_bytes = kGiB, .io_depth = 4, .lookahead = 2};
    EXPECT_THAT(warnings(resident, true),
                ElementsAre("--cache-mb and --lookahead and --io-depth have no effect "
                            "here, because the whole model is held in memory"));
    EXPECT_THAT(warnings({.stream = StreamMode::Force, .io_threads = 4}, false),
                ElementsAre("--io-threads has no effect here, because the model has no routed experts"));
    EXPECT_THAT(warnings({.stream = StreamMode::Never}, true), ElementsAre());
}

} // namespace
} // namespace sluice::planning
