// What changes the text on purpose: only when asked for, only where it says, and always said.

#include "session/model_state.h"
#include "support/gate.h"
#include "tools/perplexity.h"

#include "residency/route_sink.h"
#include <cmath>

#include <gtest/gtest.h>
#include <span>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

std::string embedded() {
    return std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
}

class Lossy : public testing::Test {
protected:
    struct Outcome {
        std::vector<float> logits;
        uint64_t dropped = 0;
        uint64_t substituted = 0;
        std::string said;
    };

    static Outcome run(const GateConfig &config, const LossyOptions &lossy) {
        ModelOptions options = gate_options(config);
        options.lossy = lossy;
        options.cache_bytes = cache_bytes(config.model, config.cache, true);
        auto model = Model::load(options);
        if (!model) {
            ADD_FAILURE() << model.error().message;
            return {};
        }
        Outcome outcome{.logits = run_session(*model, config), .said = model->info().lossy};
        outcome.dropped = model->state().streamed->store->counters.dropped_experts;
        outcome.substituted = model->state().streamed->store->counters.substituted_experts;
        for (const float logit : outcome.logits) {
            if (!std::isfinite(logit)) {
                ADD_FAILURE() << "a logit is not a number";
                break;
            }
        }
        return outcome;
    }

    const GateConfig small_{.model = embedded(), .cache = CacheSize::WorkingSet, .prompt = 8, .drawn = 24};
};

TEST_F(Lossy, NothingAskedForIsNothingSaid) {
    EXPECT_EQ(run(small_, {}).said, "");
    EXPECT_FALSE(LossyOptions().any());
}

TEST_F(Lossy, FewerExpertsChangeTheTextAndTheModelsOwnNumberDoesNot) {
    const std::vector<float> stock = run_stock(small_);
    const Outcome same = run(small_, {.n_expert_used = 4});
    EXPECT_EQ(same.logits, stock);
    const Outcome fewer = run(small_, {.n_expert_used = 2});
    EXPECT_NE(fewer.logits, stock);
    EXPECT_EQ(fewer.said, "--n-expert-used 2");
}

TEST_F(Lossy, MoreExpertsThanTheModelHasAreRefused) {
    ModelOptions options = gate_options(small_);
    options.lossy.n_expert_used = 33;
    const auto model = Model::load(options);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(model.error().message, "--n-expert-used 33: the model has 32 experts");
}

TEST_F(Lossy, ColdExpertsAreLeftOutWhereTheyAreMissing) {
    const std::vector<float> stock = run_stock(small_);
    const Outcome outcome = run(small_, {.drop_cold = 0.9F});
    EXPECT_GT(outcome.dropped, 0U);
    EXPECT_NE(outcome.logits, stock);
    EXPECT_EQ(outcome.said, "--drop-cold 0.9");
}

TEST_F(Lossy, ColdExpertsThatWeighEnoughAreRead) {
    const Outcome outcome = run(small_, {.drop_cold = 1e-6F});
    EXPECT_EQ(outcome.dropped, 0U);
    EXPECT_EQ(outcome.logits, run_stock(small_));
}

TEST_F(Lossy, CachedExpertsTakeThePlaceOfMissingOnesWithinTheMargin) {
    const std::vector<float> stock = run_stock(small_);
    const Outcome some = run(small_, {.substitute = 0.05F});
    const Outcome many = run(small_, {.substitute = 1.0F});
    EXPECT_GT(some.substituted, 0U);
    EXPECT_GT(many.substituted, some.substituted);
    EXPECT_NE(many.logits, stock);
    EXPECT_EQ(many.said, "--substitute 1");
}

/// Routes of nobody: the same for every token.
class FixedRoutes : public IRouteSource {
public:
    void choose(uint32_t layer, std::span<int32_t> experts) override {
        ++asked;
        for (size_t i = 0; i < experts.size(); ++i) {
            experts[i] = static_cast<int32_t>((layer + 3 * i) % 32);
        }
    }
    uint64_t asked = 0;
};

TEST_F(Lossy, RoutesFromElsewhereDecideForTheRouter) {
    FixedRoutes routes;
    const Outcome outcome = run(small_, {.route_source = &routes});
    EXPECT_EQ(routes.asked, 8U * 24U) << "eight layers for each token";
    EXPECT_NE(outcome.logits, run_stock(small_));
    EXPECT_EQ(outcome.said, "routes from elsewhere");
}

TEST(Perplexity, OfEvenOddsIsTheNumberOfTokens) {
    tools::Perplexity perplexity;
    const std::vector<float> even(50, 3.0F);
    perplexity.add(even, 7);
    perplexity.add(even, 49);
    EXPECT_NEAR(perplexity.value(), 50, 1e-9);
    EXPECT_NEAR(perplexity.error(), 0, 1e-6);
    EXPECT_EQ(perplexity.tokens(), 2U);
}

TEST(Perplexity, IsTheGeometricMeanOfWhatEachTokenCost) {
    tools::Perplexity perplexity;
    perplexity.add(std::vector<float>{std::log(1.0F), std::log(3.0F)}, 0); // 1/4
    perplexity.add(std::vector<float>{std::log(1.0F), std::log(1.0F)}, 1); // 1/2
    EXPECT_NEAR(perplexity.value(), std::sqrt(8.0), 1e-6);
    // Standard error of the mean of ln 4 and ln 2: half their difference.
    EXPECT_NEAR(perplexity.error(), std::log(2.0) / 2 * std::sqrt(8.0), 1e-6);
}

} // namespace
} // namespace sluice::test
