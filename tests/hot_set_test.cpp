// The file that tells a run what the one before held in its cache.

#include "residency/hot_set.h"
#include "support/temp_file.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluice::residency {
namespace {

const FileIdentity kFile{.path = "/models/some.gguf", .bytes = 1000, .modified = 77};

std::vector<Bank> banks() {
    return {{.name = "up", .file = nullptr, .offset = 5000, .slice_bytes = 10, .expert_count = 8},
            {.name = "down", .file = nullptr, .offset = 100, .slice_bytes = 20, .expert_count = 8}};
}

TEST(HotSet, GoesToTextAndBackInItsOrder) {
    const std::vector<SliceKey> slices{{1, 7}, {0, 3}, {1, 0}};
    EXPECT_EQ(hot_set_from_json(hot_set_to_json(kFile, banks(), slices), kFile, banks()), slices);
}

TEST(HotSet, FindsBanksByNameWhereTheirOrderChanged) {
    const std::string text = hot_set_to_json(kFile, banks(), std::vector<SliceKey>{{1, 7}});
    std::vector<Bank> swapped = banks();
    std::swap(swapped[0], swapped[1]);
    EXPECT_EQ(hot_set_from_json(text, kFile, swapped), (std::vector<SliceKey>{{0, 7}}));
}

TEST(HotSet, OfAnotherFileOrAnEarlierOneGivesNothing) {
    const std::string text = hot_set_to_json(kFile, banks(), std::vector<SliceKey>{{1, 7}});
    FileIdentity other = kFile;
    other.modified += 1;
    EXPECT_TRUE(hot_set_from_json(text, other, banks()).empty());
    other = kFile;
    other.bytes += 1;
    EXPECT_TRUE(hot_set_from_json(text, other, banks()).empty());
    other = kFile;
    other.path += "x";
    EXPECT_TRUE(hot_set_from_json(text, other, banks()).empty());
}

TEST(HotSet, WhatTheModelDoesNotHaveGivesNothing) {
    std::vector<Bank> fewer = banks();
    fewer[1].expert_count = 7;
    const std::string text = hot_set_to_json(kFile, banks(), std::vector<SliceKey>{{1, 7}});
    EXPECT_TRUE(hot_set_from_json(text, kFile, fewer).empty());
    fewer.pop_back();
    EXPECT_TRUE(hot_set_from_json(text, kFile, fewer).empty());
}

TEST(HotSet, NumbersThatNoneOfItsCanBeGiveNothing) {
    const std::string text = hot_set_to_json(kFile, banks(), std::vector<SliceKey>{{1, 7}});
    for (const auto &[number, other] : std::vector<std::pair<std::string, std::string>>{
             {"\"modified\":77", "\"modified\":6666666666666666666666666666666666666"},
             {"\"modified\":77", "\"modified\":77.5"},
             {"\"modified\":77", "\"modified\":18446744073709551615"},
             {"\"bytes\":1000", "\"bytes\":-1"},
             {"[1,7]", "[1,4294967303]"}, // 7, if it were cut to 32 bits
             {"[1,7]", "[1,-1]"},
             {"[1,7]", "[1,7.9]"},
             {"[1,7]", "[1]"},
             {"[1,7]", "7"}}) {
        std::string damaged = text;
        ASSERT_NE(damaged.find(number), std::string::npos) << text;
        damaged.replace(damaged.find(number), number.size(), other);
        EXPECT_TRUE(hot_set_from_json(damaged, kFile, banks()).empty()) << damaged;
    }
}

TEST(HotSet, DamageGivesNothing) {
    const std::string text = hot_set_to_json(kFile, banks(), std::vector<SliceKey>{{1, 7}, {0, 3}});
    for (size_t length = 0; length < text.size(); ++length) {
        EXPECT_TRUE(hot_set_from_json(text.substr(0, length), kFile, banks()).empty()) << length;
    }
    for (const char *other : {"[]", "{}", "null", "7", "{\"sluice_hot_set\":2}", "\xff\xfe"}) {
        EXPECT_TRUE(hot_set_from_json(other, kFile, banks()).empty()) << other;
    }
}

TEST(HotSet, IsReadInFileOrderAsFarAsEachClassHasSlots) {
    SlotPlan plan;
    plan.classes = {{.stride = 16, .slots = 1}, {.stride = 32, .slots = 2}};
    plan.class_of_bank = {0, 1};
    const std::vector<SliceKey> hottest_first{{0, 5}, {1, 6}, {0, 1}, {1, 2}, {1, 0}};
    EXPECT_EQ(reading_order(hottest_first, banks(), plan), (std::vector<SliceKey>{{1, 2}, {1, 6}, {0, 5}}));
}

TEST(HotSet, SlicesOfABankWithoutSlotsAreNotRead) {
    SlotPlan plan;
    plan.classes = {{.stride = 16, .slots = 2}};
    plan.class_of_bank = {kNoClass, 0};
    EXPECT_EQ(reading_order(std::vector<SliceKey>{{0, 5}, {1, 6}}, banks(), plan),
              (std::vector<SliceKey>{{1, 6}}));
}

TEST(HotSet, FilesOfTwoModelsHaveTwoNames) {
    const HotSet one("/tmp", {.path = "/a/model.gguf"});
    const HotSet two("/tmp", {.path = "/b/model.gguf"});
    EXPECT_NE(one.path(), two.path());
}

TEST(HotSet, IdentityChangesWithTheFile) {
    const test::ScratchDir dir;
    const std::string path = dir.write("m", "x");
    const FileIdentity before = identify_file(path, 1);
    EXPECT_EQ(identify_file(path, 1), before);
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
    EXPECT_NE(identify_file(path, 1), before);
}

} // namespace
} // namespace sluice::residency
