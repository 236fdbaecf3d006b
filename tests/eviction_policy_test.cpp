// The routing layout, the forecast of uses, and whom each policy evicts.

#include "options/cache_policy.h"
#include "residency/eviction_policy.h"
#include "residency/use_forecast.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace sluice::residency {
namespace {

/// `layers` layers of `banks` banks of `experts` experts.
RoutingLayout layout_of(uint32_t layers, uint32_t experts, uint32_t per_token, uint32_t banks = 1) {
    RoutingLayout layout;
    for (uint32_t layer = 0; layer < layers; ++layer) {
        RoutingLayout::Layer &added = layout.layers.emplace_back();
        added.expert_count = experts;
        added.experts_per_token = per_token;
        for (uint32_t bank = 0; bank < banks; ++bank) {
            added.banks.push_back(static_cast<BankId>(layout.layer_of_bank.size()));
            layout.layer_of_bank.push_back(layer);
        }
    }
    return layout;
}

bool anything(SlotIndex) {
    return true;
}

void route(IEvictionPolicy &policy, uint32_t layer, std::vector<uint32_t> experts, int times = 1) {
    for (int i = 0; i < times; ++i) {
        policy.routed(layer, experts);
    }
}

/// Victims in order, each forgotten.
std::vector<SlotIndex> victims(IEvictionPolicy &policy) {
    std::vector<SlotIndex> order;
    while (const auto slot = policy.victim(anything)) {
        order.push_back(*slot);
        policy.forgotten(*slot);
    }
    return order;
}

// -- layout
// --------------------------------------------------------------------------------------------------------

Bank bank_of(uint32_t experts) {
    return {.name = "b", .slice_bytes = 1, .expert_count = experts};
}

TEST(RoutingLayout, LayersAreDecisionsInGraphOrder) {
    const auto layout = make_routing_layout({bank_of(8), bank_of(8), bank_of(4), bank_of(8)},
                                            {{.banks = {3, 0}, .experts_per_token = 2}, {.banks = {1, 2}}});
    ASSERT_EQ(layout.layers.size(), 2U);
    EXPECT_EQ(layout.layers[0].banks, (std::vector<BankId>{3, 0}));
    EXPECT_EQ(layout.layers[0].experts_per_token, 2U);
    EXPECT_EQ(layout.layers[1].expert_count, 8U) << "of the larger bank";
    EXPECT_EQ(layout.layer_of_bank, (std::vector<uint32_t>{0, 1, 1, 0}));
}

TEST(RoutingLayout, BanksInNoLayerAreLayersOfTheirOwn) {
    const auto layout = make_routing_layout({bank_of(8), bank_of(8), bank_of(8)}, {{.banks = {1}}});
    EXPECT_EQ(layout.layers.size(), 3U);
    EXPECT_EQ(layout.layer_of_bank, (std::vector<uint32_t>{1, 0, 2}));
}

TEST(RoutingLayout, ABankInTwoLayersCountsWithTheFirst) {
    const auto layout =
        make_routing_layout({bank_of(8), bank_of(8)}, {{.banks = {0, 1}}, {.banks = {1}}, {.banks = {0}}});
    EXPECT_EQ(layout.layers.size(), 1U);
}

// -- names
// ---------------------------------------------------------------------------------------------------------

TEST(PolicyName, EveryPolicyIsFoundByItsName) {
    for (const CachePolicy policy : options::all_policies()) {
        EXPECT_EQ(options::policy_named(options::policy_name(policy)), policy);
        EXPECT_NE(make_policy(policy, 2, layout_of(1, 2, 1)), nullptr);
    }
    EXPECT_EQ(options::policy_named("fifo"), std::nullopt);
    EXPECT_EQ(options::all_policies().front(), CachePolicy::NextUse) << "the default comes first";
}

// -- what all policies promise
// -------------------------------------------------------------------------------------

class AnyPolicy : public testing::TestWithParam<CachePolicy> {
protected:
    std::unique_ptr<IEvictionPolicy> make(size_t slots) {
        return make_policy(GetParam(), slots, layout_of(3, 8, 2, 2));
    }
};

TEST_P(AnyPolicy, OffersEverySlotOnceAndThenNone) {
    const auto policy = make(6);
    for (SlotIndex slot = 0; slot < 6; ++slot) {
        policy->used(slot, {.bank = slot, .expert = slot});
    }
    auto order = victims(*policy);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<SlotIndex>{0, 1, 2, 3, 4, 5}));
}

TEST_P(AnyPolicy, OffersOnlyWhatIsEvictable) {
    const auto policy = make(6);
    for (SlotIndex slot = 0; slot < 6; ++slot) {
        policy->used(slot, {.bank = slot, .expert = 1});
        EXPECT_EQ(policy->victim([slot](SlotIndex offered) { return offered == slot; }), slot);
    }
    EXPECT_EQ(policy->victim([](SlotIndex) { return false; }), std::nullopt);
}

TEST_P(AnyPolicy, ForgottenSlotsAreNotOffered) {
    const auto policy = make(2);
    policy->used(0, {.bank = 0, .expert = 0});
    policy->used(1, {.bank = 0, .expert = 1});
    policy->forgotten(0);
    policy->forgotten(0);
    EXPECT_EQ(victims(*policy), std::vector<SlotIndex>{1});
    EXPECT_EQ(policy->victim(anything), std::nullopt);
}

TEST_P(AnyPolicy, SlotsCanHoldSomethingElseAfterwards) {
    const auto policy = make(1);
    for (uint32_t expert = 0; expert < 8; ++expert) {
        policy->used(0, {.bank = 1, .expert = expert});
        EXPECT_EQ(policy->victim(anything), 0U);
        policy->forgotten(0);
    }
}

INSTANTIATE_TEST_SUITE_P(All, AnyPolicy,
                         testing::Values(CachePolicy::NextUse, CachePolicy::Lru, CachePolicy::Lfu),
                         [](const auto &info) {
                             std::string name(options::policy_name(info.param));
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// -- LRU
// ----------------------------------------------------------------------------------------------------------

TEST(LruPolicy, OffersTheLeastRecentlyUsed) {
    const auto policy = make_lru_policy(4);
    for (SlotIndex slot : {0U, 1U, 2U}) {
        policy->used(slot, {});
    }
    policy->used(0, {});
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{1, 2, 0}));
}

// -- LFU
// ----------------------------------------------------------------------------------------------------------

TEST(LfuPolicy, OffersTheLeastOftenUsed) {
    const auto policy = make_lfu_policy(3, layout_of(1, 8, 1));
    for (const auto &[expert, times] : std::map<uint32_t, int>{{0, 2}, {1, 3}, {2, 1}}) {
        route(*policy, 0, {expert}, times);
        policy->used(expert, {.bank = 0, .expert = expert});
    }
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{2, 0, 1}));
}

TEST(LfuPolicy, AmongEqualsTheLeastRecentlyUsedGoes) {
    const auto policy = make_lfu_policy(3, layout_of(1, 8, 3));
    route(*policy, 0, {0, 1, 2});
    for (SlotIndex slot : {0U, 1U, 2U, 0U}) {
        policy->used(slot, {.bank = 0, .expert = slot});
    }
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{1, 2, 0}));
}

TEST(LfuPolicy, CountsSurviveEviction) {
    const auto policy = make_lfu_policy(2, layout_of(1, 8, 1));
    route(*policy, 0, {0}, 5);
    policy->used(0, {.bank = 0, .expert = 0});
    policy->forgotten(0);
    route(*policy, 0, {1}, 3);
    policy->used(1, {.bank = 0, .expert = 1});
    route(*policy, 0, {0});
    policy->used(0, {.bank = 0, .expert = 0});
    EXPECT_EQ(policy->victim(anything), 1U);
}

// -- forecast
// ------------------------------------------------------------------------------------------------------

std::vector<float> shares_of(const UseForecast &forecast, uint32_t layer, size_t experts) {
    std::vector<float> shares(experts);
    forecast.shares(layer, shares);
    return shares;
}

TEST(UseForecast, BeforeAnythingIsSeenAllExpertsAreAlike) {
    const UseForecast forecast(layout_of(2, 8, 2));
    EXPECT_EQ(shares_of(forecast, 1, 8), std::vector<float>(8, 0.25F));
}

TEST(UseForecast, SharesAddUpToTheExpertsOfOneToken) {
    UseForecast forecast(layout_of(2, 16, 4));
    std::mt19937 random(1);
    for (int token = 0; token < 200; ++token) {
        std::vector<uint32_t> experts(16);
        std::iota(experts.begin(), experts.end(), 0U);
        std::shuffle(experts.begin(), experts.end(), random);
        experts.resize(4);
        forecast.routed(0, experts);
        const auto shares = shares_of(forecast, 0, 16);
        EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0F), 4.0F, 0.01F);
    }
    EXPECT_EQ(shares_of(forecast, 1, 16), std::vector<float>(16, 0.25F)) << "layers are independent";
}

TEST(UseForecast, AnExpertThatATokenChoseTwiceIsUsedOnce) {
    UseForecast twice(layout_of(1, 8, 2));
    UseForecast once(layout_of(1, 8, 2));
    twice.routed(0, std::vector{3U, 3U});
    once.routed(0, std::vector{3U});
    EXPECT_EQ(shares_of(twice, 0, 8), shares_of(once, 0, 8));
}

TEST(UseForecast, UsedOftenAndUsedLatelyBothCount) {
    UseForecast forecast(layout_of(1, 8, 1));
    for (const uint32_t expert : {0U, 0U, 0U, 1U, 2U}) {
        forecast.routed(0, std::vector{expert});
    }
    const auto shares = shares_of(forecast, 0, 8);
    EXPECT_GT(shares[0], shares[1]) << "three times against once";
    EXPECT_GT(shares[2], shares[1]) << "just now against before";
    EXPECT_GT(shares[1], shares[3]) << "once against never";
}

TEST(UseForecast, TrustGoesToTheMemoryThatForetellsTheModel) {
    UseForecast sticky(layout_of(1, 16, 1)); // each expert several times in a row, never the one before again
    UseForecast steady(layout_of(1, 16, 1)); // always the same few, one after the other
    for (uint32_t token = 0; token < 400; ++token) {
        sticky.routed(0, std::vector{token / 10 % 16});
        steady.routed(0, std::vector{token % 5});
    }
    EXPECT_GT(sticky.trust()[0], 0.6);
    EXPECT_LT(steady.trust()[0], 0.1);
    for (const UseForecast &forecast : {sticky, steady}) {
        EXPECT_NEAR(std::accumulate(forecast.trust().begin(), forecast.trust().end(), 0.0), 1.0, 1e-9);
    }
}

TEST(UseForecast, LostTrustCanBeRegained) {
    UseForecast forecast(layout_of(1, 16, 1));
    for (uint32_t token = 0; token < 4000; ++token) {
        forecast.routed(0, std::vector{token % 5});
    }
    ASSERT_LT(forecast.trust()[0], 0.02);
    for (uint32_t token = 0; token < 1000; ++token) {
        forecast.routed(0, std::vector{token / 10 % 16});
    }
    EXPECT_GT(forecast.trust()[0], 0.5);
}

TEST(UseForecast, UnusedExpertsKeepAShareThatCanBeCalculatedWith) {
    UseForecast forecast(layout_of(1, 8, 1));
    for (int token = 0; token < 20000; ++token) {
        forecast.routed(0, std::vector{0U});
    }
    for (const float share : shares_of(forecast, 0, 8)) {
        EXPECT_TRUE(std::isnormal(share));
        EXPECT_LE(share, 1.0F);
        EXPECT_GT(share, 0.0F);
    }
}

// -- next use
// ------------------------------------------------------------------------------------------------------

TEST(NextUsePolicy, AmongEquallyUsedExpertsTheOneWhoseLayerComesLastGoes) {
    const auto policy = make_next_use_policy(4, layout_of(4, 8, 1));
    for (uint32_t layer = 0; layer < 4; ++layer) {
        policy->used(layer, {.bank = layer, .expert = 5});
    }
    route(*policy, 1, {});
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{1, 0, 3, 2}))
        << "the computing layer's own comes again a whole token later";
}

TEST(NextUsePolicy, AnExpertUsedRarelyGoesBeforeOneWhoseLayerIsFar) {
    const auto policy = make_next_use_policy(2, layout_of(4, 8, 1));
    for (int token = 0; token < 20; ++token) {
        route(*policy, 0, {0});
        route(*policy, 1, {token == 0 ? 1U : 0U});
    }
    policy->used(0, {.bank = 0, .expert = 0}); // three layers away, used by every token
    policy->used(1, {.bank = 2, .expert = 1}); // the next layer, but one token in eight
    EXPECT_EQ(policy->victim(anything), 1U);
}

TEST(NextUsePolicy, WhatIsKnownOfAnExpertSurvivesItsEviction) {
    const auto policy = make_next_use_policy(2, layout_of(2, 8, 1));
    route(*policy, 0, {3}, 10);
    policy->used(0, {.bank = 0, .expert = 3});
    policy->forgotten(0);
    route(*policy, 0, {4}, 2);
    policy->used(0, {.bank = 0, .expert = 3});
    policy->used(1, {.bank = 0, .expert = 5});
    EXPECT_EQ(policy->victim(anything), 1U);
}

TEST(NextUsePolicy, OfOneExpertsSlicesTheOneNeededLastGoesFirst) {
    const auto policy = make_next_use_policy(3, layout_of(2, 8, 1, 3));
    for (uint32_t bank = 0; bank < 3; ++bank) {
        policy->used(bank, {.bank = bank, .expert = 6});
    }
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{2, 1, 0}));
}

TEST(NextUsePolicy, SlicesOfOneExpertGoTogether) {
    const auto policy = make_next_use_policy(4, layout_of(1, 8, 1, 2));
    route(*policy, 0, {1}, 3);
    for (SlotIndex slot = 0; slot < 4; ++slot) { // slots 0 and 2: expert 1; slots 1 and 3: expert 2
        policy->used(slot, {.bank = slot / 2, .expert = 1 + slot % 2});
    }
    EXPECT_EQ(victims(*policy), (std::vector<SlotIndex>{3, 1, 2, 0}));
}

/// Layers until `key` is used again, by the formula in the header, taken literally.
float next_use(SliceKey key, const UseForecast &forecast, const RoutingLayout &layout, uint32_t computing) {
    const auto layers = static_cast<float>(layout.layers.size());
    const uint32_t layer = layout.layer_of_bank[key.bank];
    const float ahead = static_cast<float>(layer) - static_cast<float>(computing);
    const float p = shares_of(forecast, layer, layout.layers[layer].expert_count)[key.expert];
    return (ahead > 0 ? ahead : ahead + layers) + layers * (1.0F / p - 1.0F);
}

TEST(NextUsePolicy, TheVictimIsTheOneThatTheFormulaNames) {
    constexpr uint32_t kLayers = 6;
    constexpr uint32_t kExperts = 10;
    const RoutingLayout layout = layout_of(kLayers, kExperts, 2);
    const auto policy = make_next_use_policy(20, layout);
    UseForecast forecast(layout);
    std::map<SlotIndex, SliceKey> held;
    std::mt19937 random(7);
    int evictions = 0;
    for (int decision = 0; decision < 3000; ++decision) {
        const auto layer = static_cast<uint32_t>(decision) % kLayers;
        const auto first = static_cast<uint32_t>(random() % 4 * random() % kExperts); // some more than others
        const std::vector<uint32_t> experts{first,
                                            (first + 1 + static_cast<uint32_t>(random()) % 9) % kExperts};
        policy->routed(layer, experts);
        forecast.routed(layer, experts);
        for (const uint32_t expert : experts) {
            const SliceKey key{.bank = layer, .expert = expert};
            const auto at = std::find_if(held.begin(), held.end(),
                                         [key](const auto &entry) { return entry.second == key; });
            if (at != held.end()) {
                policy->used(at->first, key);
                continue;
            }
            auto slot = static_cast<SlotIndex>(held.size());
            if (held.size() == 20) {
                const auto victim = policy->victim(anything);
                ASSERT_TRUE(victim);
                for (const auto &[other, other_key] : held) {
                    // Trust moves with every decision, a layer's own forecast only with its own.
                    ASSERT_LE(next_use(other_key, forecast, layout, layer),
                              1.1F * next_use(held[*victim], forecast, layout, layer));
                }
                slot = *victim;
                policy->forgotten(slot);
                held.erase(slot);
                ++evictions;
            }
            policy->used(slot, key);
            held[slot] = key;
        }
    }
    EXPECT_GT(evictions, 500);
}

} // namespace
} // namespace sluice::residency
