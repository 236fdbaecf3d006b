// Routing traces: reading them, writing them, and replaying them through the policies.

#include "options/cache_policy.h"
#include "support/temp_file.h"
#include "telemetry/route_trace.h"
#include "tools/replay.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <utility>

namespace sluice::telemetry {
namespace {

using test::ScratchDir;
using testing::HasSubstr;

RouteTrace parsed(std::string_view text) {
    auto trace = parse_route_trace(text, "t");
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? std::move(*trace) : RouteTrace{};
}

// -- reading
// -------------------------------------------------------------------------------------------------------

TEST(RouteTrace, EachDecodeLineIsADecision) {
    const RouteTrace trace = parsed("2 4\n1 0 3 1\n1 1 0 2\n1 0 1 2\n");
    EXPECT_EQ(trace.layers, 2U);
    EXPECT_EQ(trace.experts, 4U);
    ASSERT_EQ(trace.decisions.size(), 3U);
    EXPECT_FALSE(trace.decisions[0].prefill);
    EXPECT_EQ(trace.decisions[0].tokens, (std::vector<std::vector<uint32_t>>{{3, 1}}));
    EXPECT_EQ(trace.decisions[1].layer, 1U);
}

TEST(RouteTrace, PrefillLinesOfOneLayerAreTheTokensOfOneDecision) {
    const RouteTrace trace = parsed("2 4\n0 0 3 1\n0 0 1 2\n0 1 0 2\n0 1 2 3\n1 0 1 2\n");
    ASSERT_EQ(trace.decisions.size(), 3U);
    EXPECT_TRUE(trace.decisions[1].prefill);
    EXPECT_EQ(trace.decisions[1].tokens, (std::vector<std::vector<uint32_t>>{{0, 2}, {2, 3}}));
    EXPECT_FALSE(trace.decisions[2].prefill);
}

TEST(RouteTrace, FactsCountTokensWhereTheLayerNumberStopsGrowing) {
    const RouteTrace trace =
        parsed("3 4\n0 0 3 1 2\n0 1 1 2\n0 0 1 0\n0 1 0\n1 0 1 2\n1 1 3\n1 0 1 2\n1 1 3\n1 1 2\n");
    const tools::TraceFacts facts = tools::trace_facts(trace);
    EXPECT_EQ(facts.prefill_passes, 2U);
    EXPECT_EQ(facts.decoded_tokens, 3U);
    EXPECT_EQ(facts.cycle_slots, 3U)
        << "two experts in the first layer, one in the second, none in the third";
}

TEST(RouteTrace, DamagedOnesAreRefusedWithTheLine) {
    const std::vector<std::pair<std::string, std::string>> all = {
        {"", "t is empty"},
        {"2 4\n", "t holds no routing decisions"},
        {"2 4", "t, line 1: it is cut short"},
        {"2 4\n1 0 3 1\n1 1 0", "t, line 3: it is cut short"},
        {"2\n1 0 3\n", "t, line 1: a trace begins with"},
        {"2 4 6\n1 0 3\n", "t, line 1: a trace begins with"},
        {"GGUF\x03\n", "t, line 1: 'GGUF\x03' is not a number"},
        {"0 4\n1 0 3\n", "t, line 1: there is no model of 0 layers"},
        {"100000 100000\n1 0 3\n", "t, line 1: there is no model of 100000 layers"},
        {"2 4\n1 0 3 x\n", "t, line 2: 'x' is not a number"},
        {"2 4\n1 0 3.5\n", "t, line 2: '3.5' is not a number"},
        {"2 4\n1 0 -1\n", "t, line 2: '-1' is not a number"},
        {"2 4\n1 0 99999999999\n", "t, line 2: '99999999999' is not a number"},
        {"2 4\n1 0 4\n", "t, line 2: expert 4 is not below the 4"},
        {"2 4\n1 2 0\n", "t, line 2: layer 2 is not below the 2"},
        {"2 4\n2 0 0\n", "t, line 2: the phase is 0 (prefill) or 1 (decode), not 2"},
        {"2 4\n1 0\n", "t, line 2: a phase, a layer and at least one expert"},
        {"2 4\n1 0 1\n\n", "t, line 3: a phase, a layer and at least one expert"},
    };
    for (const auto &[text, says] : all) {
        const auto trace = parse_route_trace(text, "t");
        ASSERT_FALSE(trace) << text;
        EXPECT_EQ(trace.error().code, ErrorCode::InvalidFormat);
        EXPECT_THAT(trace.error().message, testing::StartsWith(says));
        EXPECT_LT(trace.error().message.size(), 120U);
    }
}

// -- writing
// -------------------------------------------------------------------------------------------------------

std::string text_of(const std::string &path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

TEST(RouteTraceWriter, WritesOneLineATokenAndLayer) {
    const ScratchDir dir;
    auto writer = RouteTraceWriter::create(dir / "trace");
    ASSERT_TRUE(writer) << writer.error().message;
    (*writer)->begin(2, 8);
    (*writer)->routed(0, std::vector<uint32_t>{7, 1, 2, 0}, 2);
    (*writer)->routed(1, std::vector<uint32_t>{3, 4}, 2);
    EXPECT_EQ(text_of(dir / "trace"), "2 8\n0 0 7 1\n0 0 2 0\n0 1 3 4\n") << "there before the end";
    EXPECT_TRUE((*writer)->close());
    const RouteTrace trace = parsed(text_of(dir / "trace"));
    EXPECT_EQ(trace.decisions.size(), 2U);
}

TEST(RouteTraceWriter, APassOfSeveralTokensIsPrefillInAllItsLayers) {
    const ScratchDir dir;
    auto writer = RouteTraceWriter::create(dir / "trace");
    ASSERT_TRUE(writer);
    (*writer)->begin(2, 8);
    for (const size_t tokens : {2U, 1U}) {
        const std::vector<uint32_t> experts(tokens, 5);
        (*writer)->routed(0, experts, 1);
        (*writer)->routed(1, std::vector<uint32_t>{6}, 1); // only the last token's output is wanted
    }
    EXPECT_EQ(text_of(dir / "trace"), "2 8\n0 0 5\n0 0 5\n0 1 6\n1 0 5\n1 1 6\n");
}

TEST(RouteTraceWriter, ReplacesAnOlderTrace) {
    const ScratchDir dir;
    auto writer = RouteTraceWriter::create(dir.write("trace", "2 8\n1 0 1 2 3 4 5 6\n"));
    ASSERT_TRUE(writer);
    (*writer)->begin(1, 2);
    EXPECT_TRUE((*writer)->close());
    EXPECT_EQ(text_of(dir / "trace"), "1 2\n");
}

TEST(RouteTraceWriter, ADirectoryThatIsMissingIsNamed) {
    const ScratchDir dir;
    const auto writer = RouteTraceWriter::create(dir / "missing/trace");
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, ErrorCode::NotFound);
    EXPECT_THAT(writer.error().message, HasSubstr("missing/trace: No such file"));
}

TEST(RouteTraceWriter, AFullDiskIsReportedAndNothingMoreIsWritten) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "there is no /dev/full here";
    }
    auto writer = RouteTraceWriter::create("/dev/full");
    ASSERT_TRUE(writer);
    EXPECT_TRUE((*writer)->status());
    (*writer)->begin(2, 8);
    (*writer)->routed(0, std::vector<uint32_t>{7, 1}, 2);
    for (const Status &status : {(*writer)->status(), (*writer)->close()}) {
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code, ErrorCode::Io);
        EXPECT_EQ(status.error().message,
                  "cannot write the routing trace /dev/full: No space left on device");
    }
}

// -- replaying
// -----------------------------------------------------------------------------------------------------

/// Tokens that like some experts more than others, and what the last token used.
RouteTrace lifelike_trace(uint32_t layers, uint32_t experts, uint32_t per_token, int tokens, uint32_t seed) {
    std::mt19937 random(seed);
    RouteTrace trace{.layers = layers, .experts = experts, .decisions = {}};
    std::vector<std::vector<uint32_t>> last(layers);
    for (int token = 0; token < tokens; ++token) {
        for (uint32_t layer = 0; layer < layers; ++layer) {
            std::set<uint32_t> chosen;
            while (chosen.size() < per_token) {
                const auto liked = static_cast<uint32_t>(random() % experts * (random() % experts) / experts);
                chosen.insert(!last[layer].empty() && random() % 3 == 0 ? last[layer][random() % per_token]
                                                                        : liked);
            }
            last[layer].assign(chosen.begin(), chosen.end());
            std::shuffle(last[layer].begin(), last[layer].end(), random);
            trace.decisions.push_back({.prefill = false, .layer = layer, .tokens = {last[layer]}});
        }
    }
    return trace;
}

TEST(Replay, LruHitsNothingBelowACycle) {
    const RouteTrace trace = lifelike_trace(8, 32, 4, 60, 1);
    EXPECT_EQ(tools::replay(trace, CachePolicy::Lru, 28).decode_hits, 0U) << "one layer's experts too few";
    EXPECT_GT(tools::replay(trace, CachePolicy::Lru, 32).decode_hits, 0U);
    EXPECT_GT(tools::replay(trace, CachePolicy::NextUse, 16).decode_hits, 0U);
}

TEST(Replay, EveryAskIsCountedInItsPhase) {
    const RouteTrace trace = parsed("1 8\n0 0 1 2\n0 0 2 3\n1 0 3 4\n1 0 3 5\n");
    const tools::ReplayCounts counts = tools::replay(trace, CachePolicy::Lru, 8);
    EXPECT_EQ(counts.prefill_asks, 3U) << "a union";
    EXPECT_EQ(counts.prefill_hits, 0U);
    EXPECT_EQ(counts.decode_asks, 4U);
    EXPECT_EQ(counts.decode_hits, 2U);
}

TEST(Replay, ADecisionLargerThanTheCacheIsServedInWaves) {
    const RouteTrace trace = parsed("1 8\n0 0 0 1 2 3 4 5\n0 0 6 7\n1 0 6 7\n");
    for (const CachePolicy policy : options::all_policies()) {
        const tools::ReplayCounts counts = tools::replay(trace, policy, 2);
        EXPECT_EQ(counts.prefill_asks, 8U);
        EXPECT_EQ(counts.decode_hits, 2U) << "those of the last wave are still there";
    }
}

TEST(Replay, ACacheOfEverythingMissesEachExpertOnce) {
    const RouteTrace trace = lifelike_trace(4, 16, 2, 40, 3);
    std::set<std::pair<uint32_t, uint32_t>> distinct;
    for (const RouteDecision &decision : trace.decisions) {
        for (const uint32_t expert : decision.tokens[0]) {
            distinct.emplace(decision.layer, expert);
        }
    }
    for (const size_t slots : {size_t{64}, SIZE_MAX}) {
        for (const CachePolicy policy : options::all_policies()) {
            const tools::ReplayCounts counts = tools::replay(trace, policy, slots);
            EXPECT_EQ(counts.decode_asks - counts.decode_hits, distinct.size());
        }
        EXPECT_EQ(tools::replay_optimum(trace, slots).decode_asks -
                      tools::replay_optimum(trace, slots).decode_hits,
                  distinct.size());
    }
}

TEST(Replay, NoPolicyBeatsTheOptimum) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        const RouteTrace trace = lifelike_trace(3, 12, 3, 40, seed);
        for (const size_t slots : {1U, 2U, 5U, 9U, 14U, 20U}) {
            const uint64_t best = tools::replay_optimum(trace, slots).decode_hits;
            for (const CachePolicy policy : options::all_policies()) {
                EXPECT_LE(tools::replay(trace, policy, slots).decode_hits, best);
            }
        }
    }
}

/// The most hits from a decision on, by trying everything that a cache could keep of it. Sets of experts are
/// bits.
class Exhaustive {
public:
    Exhaustive(const RouteTrace &trace, int slots) : trace_(trace), slots_(slots) {}

    int best(size_t at = 0, uint32_t held = 0) {
        if (at == trace_.decisions.size()) {
            return 0;
        }
        if (const auto known = known_.find({at, held}); known != known_.end()) {
            return known->second;
        }
        const uint32_t asked = bits(trace_.decisions[at]);
        const uint32_t at_hand = held | asked;
        int most = 0;
        for (uint32_t kept = at_hand;; kept = (kept - 1) & at_hand) { // all its subsets
            if (std::popcount(kept) <= slots_) {
                most = std::max(most, best(at + 1, kept));
            }
            if (kept == 0) {
                break;
            }
        }
        return known_[{at, held}] = most + std::popcount(held & asked);
    }

private:
    static uint32_t bits(const RouteDecision &decision) {
        uint32_t bits = 0;
        for (const uint32_t expert : decision.tokens[0]) {
            bits |= 1U << expert;
        }
        return bits;
    }

    const RouteTrace &trace_;
    const int slots_;
    std::map<std::pair<size_t, uint32_t>, int> known_;
};

TEST(Replay, TheOptimumIsTheBestOfAllChoices) {
    for (uint32_t seed = 0; seed < 30; ++seed) {
        const RouteTrace trace = lifelike_trace(1, 6, 1 + seed % 3, 9, seed);
        for (int slots = 1; slots <= 5; ++slots) {
            EXPECT_EQ(tools::replay_optimum(trace, static_cast<size_t>(slots)).decode_hits,
                      static_cast<uint64_t>(Exhaustive(trace, slots).best()))
                << "seed " << seed << ", " << slots << " slots";
        }
    }
}

TEST(Replay, NextUseIsBehindNoOtherPolicyOnLifelikeTraces) {
    for (uint32_t seed = 0; seed < 5; ++seed) {
        const RouteTrace trace = lifelike_trace(16, 64, 4, 120, seed);
        for (const size_t slots : {48U, 64U, 96U, 128U, 256U}) {
            const uint64_t hits = tools::replay(trace, CachePolicy::NextUse, slots).decode_hits;
            for (const CachePolicy other : {CachePolicy::Lru, CachePolicy::Lfu}) {
                // With exactly one cycle LRU keeps the last token's experts, the best that can be done here.
                EXPECT_GE(hits * 1.005, tools::replay(trace, other, slots).decode_hits) << slots;
            }
        }
    }
}

} // namespace
} // namespace sluice::telemetry
