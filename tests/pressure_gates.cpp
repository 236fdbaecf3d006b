// Byte identity while memory is taken away and given back: whatever happens to the cache between tokens, not
// a logit changes.

#include "session/model_state.h"
#include "support/gate.h"
#include "support/memory_group.h"
#include "support/temp_file.h"
#include "tools/make_model.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

namespace sluice::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20U;

// More than the quarter of a second that a session waits between two looks at memory.
constexpr std::chrono::milliseconds kUntilNextLook{300};

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

residency::ExpertCache &cache_of(Model &model) {
    return *model.state().streamed->store->cache();
}

// -- the cache is resized by hand
// ------------------------------------------------------------------------------------------------

/// Before each decode the cache goes to the next of a row of sizes, from its minimum to all of it.
class Resized : public testing::TestWithParam<CachePolicy> {};

TEST_P(Resized, CacheChangesBetweenTokensWithoutChangingAByte) {
    std::vector<size_t> limits;
    GateConfig config{
        .model = embedded(), .cache = CacheSize::Everything, .policy = GetParam(), .ubatch = 7, .prompt = 40};
    config.before_decode = [&limits](Model &model, size_t decodes) {
        constexpr size_t kEighths[] = {8, 3, 0, 5, 1, 8, 2, 0};
        residency::ExpertCache &cache = cache_of(model);
        const residency::SlotPlan &plan = cache.plan();
        const size_t asked = plan.arena_bytes / 8 * kEighths[decodes % std::size(kEighths)];
        limits.push_back(cache.set_limit(asked));
        EXPECT_LE(limits.back(), std::max(asked, plan.minimum_bytes)) << "nothing is pinned between graphs";
    };
    const GateRun run = expect_identical(config);
    ASSERT_GE(limits.size(), 8U);
    for (size_t i = 1; i < limits.size(); ++i) {
        EXPECT_NE(limits[i], limits[i - 1]) << "decode " << i;
    }
    EXPECT_EQ(limits[2], run.stats.experts.cache_minimum_bytes);
    EXPECT_EQ(limits[5], limits[0]) << "it grew back to all of it";
    EXPECT_GT(run.stats.experts.evictions, 0U) << "a cache of everything evicts only when it shrinks";
    EXPECT_GT(run.stats.experts.rereads, 0U);
}

INSTANTIATE_TEST_SUITE_P(Policies, Resized, testing::Values(CachePolicy::NextUse, CachePolicy::Lru),
                         [](const auto &info) { return info.param == CachePolicy::Lru ? "Lru" : "NextUse"; });

TEST(Resized, CacheOfSlotsOfSeveralSizes) {
    std::vector<size_t> limits;
    GateConfig config{.model = tiny_model("tiny-mixed"), .cache = CacheSize::Everything, .prompt = 40};
    config.before_decode = [&limits](Model &model, size_t decodes) {
        limits.push_back(cache_of(model).set_limit(
            decodes % 3 == 0 ? 0 : cache_of(model).plan().arena_bytes / (decodes % 3)));
    };
    const GateRun run = expect_identical(config);
    EXPECT_LT(limits[0], limits[2]);
    EXPECT_LT(limits[2], limits[1]);
    EXPECT_GT(run.stats.experts.evictions, 0U);
}

// Nobody else's slices are in the class: what the second step left there must not keep the first one waiting.
TEST(Resized, OneLayerWhoseSlotsAllHoldSlicesOfItsLastStep) {
    const auto model =
        tools::make_model({.like = "tiny-qwen3moe", .layers = 1}, scratch_path("one-layer.gguf"), {});
    ASSERT_TRUE(model) << model.error().message;
    GateConfig config{
        .model = *model, .cache = CacheSize::Everything, .policy = CachePolicy::Lru, .prompt = 3 * 64};
    config.before_decode = [](Model &running, size_t) { cache_of(running).set_limit(0); };
    const GateRun run = expect_identical(config);
    EXPECT_GT(run.stats.experts.evictions, 0U);
}

// -- the system is short of memory
// -----------------------------------------------------------------------------------------------

/// A /proc/meminfo of our own for this thread and those it starts, until the thread ends.
class FakedMeminfo {
public:
    /// False where the system doesn't let us, with the reason in `why_not`.
    bool mount_over(std::string &why_not) {
        set_available(64 * 1024 * kMiB);
        const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                             ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                             ::mount(file_.c_str(), "/proc/meminfo", nullptr, MS_BIND, nullptr) == 0;
        why_not = mounted ? "" : fmt::format("cannot mount a faked /proc/meminfo: {}", std::strerror(errno));
        return mounted;
    }

    void set_available(uint64_t bytes) const {
        std::ofstream(file_) << fmt::format("MemTotal: {} kB\nMemAvailable: {} kB\n", 8192 * kMiB / 1024,
                                            bytes / 1024);
    }

private:
    const ScratchDir dir_;
    const std::string file_ = dir_ / "meminfo";
};

/// What a session did about what its hook did to the system.
struct Seen {
    size_t full = 0, short_of_memory = 0, enough = 0; ///< limits of the cache
    uint64_t evictions = 0;                           ///< when memory was short
};

/// A gate in which memory gets short before the fifth decode and there is enough again before the tenth.
Seen run_under_pressure(const std::function<void()> &get_short, const std::function<void()> &relieve) {
    Seen seen;
    GateConfig config{.model = embedded(), .cache = CacheSize::Everything};
    config.before_decode = [&](Model &model, size_t decodes) {
        const residency::ExpertCache &cache = cache_of(model);
        switch (decodes) {
        case 4:
            seen.full = cache.limit();
            get_short();
            std::this_thread::sleep_for(kUntilNextLook);
            break;
        case 9:
            seen.short_of_memory = cache.limit();
            seen.evictions = cache.counters().evictions;
            relieve();
            std::this_thread::sleep_for(kUntilNextLook);
            break;
        case 14:
            seen.enough = cache.limit();
            break;
        default:
            break;
        }
    };
    expect_identical(config);
    return seen;
}

void expect_shrunk_and_grown(const Seen &seen) {
    EXPECT_GT(seen.full, 0U);
    EXPECT_LT(seen.short_of_memory, seen.full) << "memory was short and the cache did not shrink";
    EXPECT_GT(seen.evictions, 0U);
    EXPECT_EQ(seen.enough, seen.full) << "it did not grow back";
}

TEST(Pressure, SystemShortOfMemoryShrinksTheCacheOfARunningSession) {
    std::string why_not;
    std::thread([&why_not] { // a thread of its own, since what it mounts goes with it
        if (FakedMeminfo faked; faked.mount_over(why_not)) {
            expect_shrunk_and_grown(run_under_pressure([&] { faked.set_available(120 * kMiB); },
                                                       [&] { faked.set_available(6000 * kMiB); }));
        }
    })
        .join();
    if (!why_not.empty()) {
        GTEST_SKIP() << why_not;
    }
}

TEST(Pressure, AnotherProcessFillingTheControlGroupShrinksTheCacheOfARunningSession) {
    constexpr uint64_t kLimit = 1024 * kMiB;
    std::string why_not;
    const auto group = MemoryGroup::make(kLimit, why_not);
    if (group == nullptr || !group->enter()) {
        GTEST_SKIP() << (group == nullptr ? why_not : "this process can't enter a control group");
    }
    std::unique_ptr<MemoryHog> hog;
    const Seen seen = run_under_pressure(
        [&] {
            hog = std::make_unique<MemoryHog>(kLimit - group->usage_bytes().value_or(0) - 100 * kMiB);
            EXPECT_TRUE(hog->holds());
        },
        [&] { hog.reset(); });
    group->leave();
    expect_shrunk_and_grown(seen);
    EXPECT_EQ(group->kills().value_or(0), 0U);
}

} // namespace
} // namespace sluice::test
