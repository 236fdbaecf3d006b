// What a session does when storage misbehaves while it reads rows.

#include "residency/row_source.h"
#include "session/model_state.h"
#include "support/fault_file.h"
#include "support/gate.h"
#include "support/gate_prompt.h"

#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>

namespace sluice::test {
namespace {

using platform::Access;
using platform::FaultFileSystem;
using platform::FaultPlan;

/// A dense model whose only reads through us are of rows, in a window of one slab.
class FaultyRows : public testing::Test {
protected:
    void SetUp() override {
        path_ = tiny_model("tiny-gemma-dense");
        auto state = session::load_model({.path = path_,
                                          .stream = StreamMode::Force,
                                          .row_stream = true,
                                          .row_window_bytes = residency::slab_bytes()},
                                         files_);
        ASSERT_TRUE(state) << state.error().message;
        model_.emplace(Model::from_state(std::move(*state)));
        auto session = Session::create(*model_, {.context_tokens = 256, .ubatch_tokens = 64, .threads = 2});
        ASSERT_TRUE(session) << session.error().message;
        session_.emplace(std::move(*session));
        prompt_ = gate_prompt(0, 12, session_->vocab_size());
    }

    /// Logits after the prompt, from a resident model.
    std::vector<float> undisturbed() {
        auto model = Model::load({.path = path_, .stream = StreamMode::Never});
        auto session = Session::create(*model, {.context_tokens = 256, .ubatch_tokens = 64, .threads = 2});
        EXPECT_TRUE(session->decode(prompt_));
        return {session->logits().begin(), session->logits().end()};
    }

    std::vector<float> last_logits() { return {session_->logits().begin(), session_->logits().end()}; }

    std::string path_;
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    FaultFileSystem files_{plan_};
    std::optional<Model> model_;
    std::optional<Session> session_;
    std::vector<Token> prompt_;
};

TEST_F(FaultyRows, ReadErrorFailsTheCallNamingTableFileOffsetAndCauseAndLeavesTheSessionUsable) {
    plan_->add({.nth = 3, .and_after = true, .error_number = EIO});
    const Status decoded = session_->decode(prompt_);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::Io);
    const std::string &message = decoded.error().message;
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find(model_->row_tables().at(0).name.substr(0, 4)), std::string::npos) << message;
    EXPECT_NE(message.find("offset"), std::string::npos) << message;
    EXPECT_NE(message.find(std::strerror(EIO)), std::string::npos) << message;
    EXPECT_TRUE(session_->logits().empty());
    EXPECT_GT(session_->stats().rows.read_errors, 0U);

    plan_->clear();
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(last_logits(), undisturbed());
}

TEST_F(FaultyRows, EveryReadMayBeTheOneThatFails) {
    const std::vector<float> expected = undisturbed();
    for (uint64_t nth = 1; nth <= 12; ++nth) {
        plan_->add({.nth = nth, .and_after = true, .error_number = EIO});
        session_->reset();
        const Status decoded = session_->decode(prompt_);
        plan_->clear();
        ASSERT_FALSE(decoded) << "with read " << nth << " failing";
        session_->reset();
        ASSERT_TRUE(session_->decode(prompt_));
        EXPECT_EQ(last_logits(), expected) << "after read " << nth << " had failed";
    }
}

TEST_F(FaultyRows, ShortAndLateReadsChangeNoByte) {
    plan_->add({.nth = 2, .short_by = 512});
    plan_->add({.nth = 4, .no_progress = true});
    plan_->add({.nth = 5, .delay = std::chrono::milliseconds(30)});
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_GE(plan_->counts().struck, 3U);
    EXPECT_EQ(last_logits(), undisturbed());
}

TEST_F(FaultyRows, FailedDirectReadIsFinishedThroughThePageCache) {
    if (!model_->info().direct) {
        GTEST_SKIP() << "no direct reads here: " << model_->info().direct_refusal;
    }
    plan_->add({.nth = 1, .and_after = true, .only = Access::Direct, .error_number = EIO});
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(session_->stats().rows.read_errors, 0U);
    EXPECT_EQ(last_logits(), undisturbed());
}

} // namespace
} // namespace sluice::test
