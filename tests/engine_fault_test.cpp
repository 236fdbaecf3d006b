// What a session does when storage misbehaves under it.

#include "session/model_state.h"
#include "support/fault_file.h"
#include "support/gate.h"
#include "support/gate_prompt.h"

#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace sluice::test {
namespace {

using platform::Access;
using platform::Fault;
using platform::FaultFileSystem;
using platform::FaultPlan;

/// A streamed session on a tiny model whose expert reads go through a fault plan.
class FaultySession : public testing::Test {
protected:
    void SetUp() override {
        model_path_ = tiny_model("tiny-qwen3moe", "q4_K");
        bytes_ = cache_bytes(model_path_, size_, direct_);
        auto state = session::load_model({.path = model_path_,
                                          .stream = StreamMode::Force,
                                          .cache_bytes = bytes_,
                                          .io_threads = 2,
                                          .lookahead = 4,
                                          .direct = direct_,
                                          .repack_experts = repack_experts_},
                                         files_);
        ASSERT_TRUE(state) << state.error().message;
        model_.emplace(Model::from_state(std::move(*state)));
        auto session = Session::create(*model_, {.context_tokens = 256, .ubatch_tokens = 64, .threads = 2});
        ASSERT_TRUE(session) << session.error().message;
        session_.emplace(std::move(*session));
        prompt_ = gate_prompt(0, 12, session_->vocab_size());
    }

    std::vector<float> last_logits() { return {session_->logits().begin(), session_->logits().end()}; }

    /// Logits of the same prompt without faults, from a session of its own.
    std::vector<float> undisturbed() {
        auto model = Model::load({.path = model_path_,
                                  .stream = StreamMode::Force,
                                  .cache_bytes = bytes_,
                                  .repack_experts = repack_experts_});
        auto session = Session::create(*model, {.context_tokens = 256, .ubatch_tokens = 64, .threads = 2});
        EXPECT_TRUE(session->decode(prompt_));
        return {session->logits().begin(), session->logits().end()};
    }

    /// Wherever in the graph the failure falls (first layer, last, gate, down), the outcome is the same.
    void fail_each_read() {
        const std::vector<float> expected = undisturbed();
        for (uint64_t nth = 1; nth <= 40; nth += 3) {
            plan_->add({.nth = nth, .and_after = true, .error_number = EIO});
            session_->reset();
            const Status decoded = session_->decode(prompt_);
            plan_->clear();
            ASSERT_FALSE(decoded) << "with read " << nth << " failing";
            session_->reset();
            const Status again = session_->decode(prompt_);
            ASSERT_TRUE(again) << again.error().message << " after read " << nth << " had failed";
            EXPECT_EQ(last_logits(), expected) << "after read " << nth << " had failed";
        }
    }

    std::string model_path_;
    CacheSize size_ = CacheSize::Minimum;
    bool direct_ = true;
    bool repack_experts_ = false;
    uint64_t bytes_ = 0;
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    FaultFileSystem files_{plan_};
    std::optional<Model> model_;
    std::optional<Session> session_;
    std::vector<Token> prompt_;
};

TEST_F(FaultySession, ShortInterruptedAndLateReadsChangeNoByte) {
    plan_->add({.nth = 2, .short_by = 512});
    plan_->add({.nth = 5, .short_by = 1});
    plan_->add({.nth = 7, .no_progress = true});
    plan_->add({.nth = 9, .delay = std::chrono::milliseconds(30)});
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_GE(plan_->counts().struck, 4U);
    EXPECT_EQ(last_logits(), undisturbed());
}

TEST_F(FaultySession, FailedDirectReadIsFinishedThroughThePageCache) {
    if (!model_->info().direct) {
        GTEST_SKIP() << "no direct reads here: " << model_->info().direct_refusal;
    }
    plan_->add({.nth = 3, .and_after = true, .only = Access::Direct, .error_number = EIO});
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_GT(session_->stats().experts.buffered_fallbacks, 0U);
    EXPECT_EQ(last_logits(), undisturbed());
}

TEST_F(FaultySession, ReadErrorFailsTheCallNamingFileTensorOffsetAndCause) {
    plan_->add({.nth = 6, .and_after = true, .error_number = EIO});
    const Status decoded = session_->decode(prompt_);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::Io);
    EXPECT_NE(decoded.error().message.find(model_path_), std::string::npos) << decoded.error().message;
    EXPECT_NE(decoded.error().message.find("exps"), std::string::npos) << decoded.error().message;
    EXPECT_NE(decoded.error().message.find("offset"), std::string::npos) << decoded.error().message;
    EXPECT_NE(decoded.error().message.find(std::strerror(EIO)), std::string::npos) << decoded.error().message;
    EXPECT_TRUE(session_->logits().empty()) << "logits of a failed call must not be readable";
}

TEST_F(FaultySession, StaysUsableAfterAReadError) {
    plan_->add({.nth = 4, .and_after = true, .error_number = EIO});
    ASSERT_FALSE(session_->decode(prompt_));
    EXPECT_EQ(session_->position(), 0U);
    plan_->clear();
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(last_logits(), undisturbed());
    EXPECT_GT(session_->stats().experts.read_errors, 0U);
}

TEST_F(FaultySession, EveryReadMayBeTheOneThatFails) {
    fail_each_read();
}

/// A failing graph may stop in the middle of giving a slice its layout.
class FaultyRepackedSession : public FaultySession {
protected:
    FaultyRepackedSession() { repack_experts_ = true; }
};

TEST_F(FaultyRepackedSession, EveryReadMayBeTheOneThatFails) {
    fail_each_read();
    EXPECT_GT(session_->stats().experts.repacked, 0U);
}

/// With room for guesses.
class FaultyLookahead : public FaultySession {
protected:
    FaultyLookahead() {
        size_ = CacheSize::WorkingSet;
        direct_ = false; // a failed direct read is tried again
    }
};

TEST_F(FaultyLookahead, AFailedReadOfAGuessFailsNothing) {
    ASSERT_TRUE(session_->decode(prompt_));
    plan_->clear();
    // Each token's guesses come after what it asks for, so some of these are guesses; a failed guess that is
    // asked for while on its way is one that somebody waits for, and fails the call.
    size_t failed_guesses = 0;
    for (Token token = 1; token < 40; ++token) {
        const uint64_t guessed = session_->stats().experts.lookahead.reads;
        const uint64_t errors = session_->stats().experts.read_errors;
        plan_->add({.nth = static_cast<uint64_t>(token % 13 + 1), .error_number = EIO});
        const Status decoded = session_->decode({&token, 1});
        plan_->clear();
        const bool failed = session_->stats().experts.read_errors > errors;
        if (decoded && failed && session_->stats().experts.lookahead.reads > guessed) {
            ++failed_guesses;
        }
        if (!decoded) {
            EXPECT_EQ(decoded.error().code, ErrorCode::Io) << decoded.error().message;
        }
    }
    EXPECT_GT(session_->stats().experts.lookahead.reads, 0U);
    session_->reset();
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(last_logits(), undisturbed());
    if (failed_guesses == 0) {
        GTEST_SKIP() << "no fault happened to strike a guess";
    }
}

TEST_F(FaultySession, CancelStopsADecodeAndTheNextOneRuns) {
    plan_->add({.nth = 1, .and_after = true, .delay = std::chrono::milliseconds(5)});
    std::thread canceller([this] {
        while (plan_->counts().struck == 0) {
            std::this_thread::yield();
        }
        session_->cancel();
    });
    const Status decoded = session_->decode(prompt_);
    canceller.join();
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::Cancelled);
    plan_->clear();
    session_->reset();
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(last_logits(), undisturbed());
}

TEST_F(FaultySession, TokensOutsideTheVocabularyAreRefused) {
    const Token wrong = static_cast<Token>(session_->vocab_size());
    const Status decoded = session_->decode({&wrong, 1});
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::InvalidArgument);
}

TEST_F(FaultySession, FullContextIsRefusedBeforeAnythingRuns) {
    const std::vector<Token> many(300, 1);
    const Status decoded = session_->decode(many);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(session_->position(), 0U);
}

} // namespace
} // namespace sluice::test
