// What callers do to a session: cancel it at any moment, throw at it, replace its file; and routers that
// decide twice.
#include "support/gate_prompt.h"
#include "support/own_graph.h"

#include "residency/route_sink.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <stdexcept>

namespace sluice::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<float> copy(std::span<const float> logits) {
    return {logits.begin(), logits.end()};
}

class CancelledSession : public testing::TestWithParam<const char *> {
protected:
    void SetUp() override {
        const std::string path = tiny_model(GetParam());
        auto model = Model::load({.path = path,
                                  .stream = StreamMode::Force,
                                  .cache_bytes = cache_bytes(path, CacheSize::Minimum, true)});
        ASSERT_TRUE(model) << model.error().message;
        model_.emplace(std::move(*model));
        auto session = Session::create(*model_, {.context_tokens = 256, .ubatch_tokens = 8, .threads = 2});
        ASSERT_TRUE(session) << session.error().message;
        session_.emplace(std::move(*session));
        prompt_ = gate_prompt(0, 40, session_->vocab_size());
    }

    std::optional<Model> model_;
    std::optional<Session> session_;
    std::vector<Token> prompt_;
};

TEST_P(CancelledSession, MeetsACancelThatCameJustBeforeTheCall) {
    session_->cancel();
    const Status decoded = session_->decode(prompt_);
    ASSERT_FALSE(decoded) << "it was lost";
    EXPECT_EQ(decoded.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(session_->position(), 0U);
    EXPECT_TRUE(session_->decode(prompt_)) << "and it counts once";

    session_->cancel();
    std::string text;
    const auto reason = session_->generate(prompt_, 4, {.temperature = 0},
                                           [&text](std::string_view piece) { text += piece; });
    ASSERT_TRUE(reason) << reason.error().message;
    EXPECT_EQ(*reason, StopReason::Cancelled);
    EXPECT_EQ(text, "");
}

TEST_P(CancelledSession, ForgetsWithResetACancelThatNoCallHasMet) {
    session_->cancel();
    session_->reset();
    EXPECT_TRUE(session_->decode(prompt_));
}

/// Five ubatches, cancelled after two: none of them is left behind.
TEST_P(CancelledSession, KeepsNothingOfAPromptThatWasCancelledHalfway) {
    ASSERT_TRUE(session_->decode(prompt_));
    const std::vector<float> expected = copy(session_->logits());
    session_->reset();
    const Status cancelled = session_->decode(prompt_, [this](size_t done, size_t) {
        if (done == 16) {
            session_->cancel();
        }
    });
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(session_->position(), 0U);
    EXPECT_TRUE(session_->logits().empty());
    ASSERT_TRUE(session_->decode(prompt_));
    EXPECT_EQ(copy(session_->logits()), expected);
}

TEST_P(CancelledSession, IsWhereItWasBeforeASecondPromptThatWasCancelled) {
    const std::span<const Token> first = std::span(prompt_).first(10);
    const std::span<const Token> second = std::span(prompt_).subspan(10);
    ASSERT_TRUE(session_->decode(first));
    ASSERT_TRUE(session_->decode(second));
    const std::vector<float> expected = copy(session_->logits());
    session_->reset();
    ASSERT_TRUE(session_->decode(first));
    const Status cancelled = session_->decode(second, [this](size_t, size_t) { session_->cancel(); });
    ASSERT_FALSE(cancelled);
    if (session_->position() == 0) { // a recurrent state cannot be taken back, which is said
        EXPECT_THAT(cancelled.error().message, HasSubstr("starts anew"));
        ASSERT_TRUE(session_->decode(first));
    }
    EXPECT_EQ(session_->position(), 10U);
    ASSERT_TRUE(session_->decode(second));
    EXPECT_EQ(copy(session_->logits()), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, CancelledSession, testing::Values("tiny-qwen3moe", "tiny-nemotron-h-moe"),
                         [](const auto &info) {
                             return std::string(info.param).find("nemotron") != std::string::npos
                                        ? std::string("Recurrent")
                                        : std::string("Attention");
                         });

/// A sink that is told routes and throws at the n-th.
class ThrowingSink : public IRouteSink {
public:
    void begin(uint32_t, uint32_t) override {}
    void routed(uint32_t, std::span<const uint32_t>, size_t) override {
        if (armed && left-- == 0) {
            throw std::runtime_error("the sink is full");
        }
    }
    bool armed = false;
    int left = 0;
};

TEST(ThrowingRouteSink, FailsTheGraphByItsNameAndLeavesNothingPinned) {
    const std::string path = tiny_model("tiny-qwen3moe");
    ThrowingSink sink;
    auto model = Model::load({.path = path,
                              .stream = StreamMode::Force,
                              .cache_bytes = cache_bytes(path, CacheSize::WorkingSet, true),
                              .route_sink = &sink});
    ASSERT_TRUE(model) << model.error().message;
    auto session = Session::create(*model, {.context_tokens = 256, .threads = 2});
    ASSERT_TRUE(session);
    const std::vector<Token> prompt = gate_prompt(0, 6, session->vocab_size());
    ASSERT_TRUE(session->decode(prompt));
    const std::vector<float> expected = copy(session->logits());
    residency::ExpertCache &cache = *model->state().streamed->store->cache();
    for (int nth = 0; nth < 3; ++nth) {
        session->reset();
        sink.armed = true;
        sink.left = nth;
        const Status decoded = session->decode(prompt);
        sink.armed = false;
        ASSERT_FALSE(decoded) << nth;
        EXPECT_EQ(decoded.error().code, ErrorCode::Internal);
        EXPECT_THAT(decoded.error().message, HasSubstr("the sink is full"));
        cache.wait_idle();
        const size_t least = cache.set_limit(0);
        EXPECT_LE(least, cache.plan().minimum_bytes) << "what is pinned cannot go";
        cache.set_limit(cache.plan().arena_bytes);
        ASSERT_TRUE(session->decode(prompt));
        EXPECT_EQ(copy(session->logits()), expected);
    }
}

TEST(ReplacedFile, WhileItIsBeingLoadedIsAnError) {
    const std::string path = scratch_path("replaced.gguf");
    const std::string other = scratch_path("other.gguf");
    fs::copy_file(tiny_model("tiny-qwen3moe"), path, fs::copy_options::overwrite_existing);
    fs::copy_file(path, other, fs::copy_options::overwrite_existing);
    ModelOptions options{.path = path, .stream = StreamMode::Force, .cache_bytes = uint64_t{8} << 20U};
    bool replaced = false;
    options.progress = [&](float) {
        if (!std::exchange(replaced, true)) {
            fs::rename(other, path);
        }
        return true;
    };
    const auto model = Model::load(options);
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error().message, HasSubstr(path + " was replaced while it was being loaded"));
    fs::remove(path);
}

/// Two matmuls of one decision on the same bank, which no architecture has, and an expert that is chosen
/// twice.
class TwiceTheSameBank : public OwnGraphTest,
                         public testing::WithParamInterface<std::pair<CachePolicy, bool>> {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-qwen3moe", "q4_K"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U,
              .cache_policy = GetParam().first,
              .repack_experts = GetParam().second},
             streaming::Role::Experts);
    }
};

TEST_P(TwiceTheSameBank, IsReadOnceAndComputesTheSameTwice) {
    residency::ExpertCache &cache = *store().cache();
    ggml_tensor *first = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    ggml_tensor *second = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    ggml_tensor *sum = ggml_add(context_.get(), first, second);
    ASSERT_EQ(compute(sum, {1, 1, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(cache.counters().misses, 3U) << "experts 1, 2 and 5";
    EXPECT_EQ(cache.occupied_slots(), 3U) << "one slot each";
    std::vector<float> twice = values(sum);
    ASSERT_EQ(compute(sum, {1, 1, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(values(sum), twice);
    ggml_tensor *once = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
    ASSERT_EQ(compute(once, {1, 1, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
    std::vector<float> expected = values(once);
    for (float &value : expected) {
        value += value;
    }
    EXPECT_EQ(twice, expected);
    EXPECT_LE(cache.set_limit(0), cache.plan().minimum_bytes) << "none is pinned, none is counted twice";
}

INSTANTIATE_TEST_SUITE_P(Policies, TwiceTheSameBank,
                         testing::Values(std::pair{CachePolicy::NextUse, false},
                                         std::pair{CachePolicy::Lru, false},
                                         std::pair{CachePolicy::NextUse, true}),
                         [](const auto &info) {
                             return std::string(info.param.first == CachePolicy::Lru ? "Lru" : "NextUse") +
                                    (info.param.second ? "Repacked" : "");
                         });

} // namespace
} // namespace sluice::test
