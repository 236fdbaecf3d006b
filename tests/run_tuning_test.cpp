// What a run sets while it tries things, and what it says of it meanwhile.

#include "gguf/gguf_directory.h"
#include "streaming/runtime/run_tuning.h"
#include "support/cli.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace sluice::streaming {
namespace {

using storage::ReadEngineKind;
using storage::SwitchedReadEngine;

class Tuning : public ::testing::Test {
protected:
    void SetUp() override {
        directory_ = *gguf::GgufDirectory::open(test::embedded(), false, platform::system_files());
        store_ = *StreamedStore::create(*directory_, {.access = platform::Access::Buffered, .dry = true});
        std::string note;
        reads_ = *SwitchedReadEngine::create({.kind = ReadEngineKind::Threads, .lanes = 2}, note);
    }

    RunTuning tuning(const TuningOptions &given) { return {store_.get(), reads_.get(), given, 0}; }

    std::unique_ptr<gguf::GgufDirectory> directory_;
    std::unique_ptr<StreamedStore> store_;
    std::unique_ptr<SwitchedReadEngine> reads_;
};

std::string settled_on(const RunTuning &tuning, const std::string &name) {
    for (const SettledSetting &setting : tuning.outcome()) {
        if (setting.name == name) {
            return setting.choice;
        }
    }
    return "";
}

TEST_F(Tuning, WhetherItLooksAheadIsWhatIsKeptAndNotWhatIsTried) {
    RunTuning run = tuning({});
    size_t without = 0;
    for (int token = 0; token < 40; ++token) {
        run.prepare(true);
        without += store_->lookahead_experts() == 0 ? 1 : 0;
        EXPECT_EQ(run.looks_ahead() ? "on" : "off", settled_on(run, "lookahead")) << token;
        run.learn(store_->lookahead_experts() == 0 ? 1.1 : 1.0, true);
    }
    EXPECT_GT(without, 0U) << "it was tried";
}

TEST_F(Tuning, WhatIsGivenIsSaid) {
    EXPECT_FALSE(tuning({.lookahead = 0}).looks_ahead());
    EXPECT_TRUE(tuning({.lookahead = 3}).looks_ahead());
}

} // namespace
} // namespace sluice::streaming
