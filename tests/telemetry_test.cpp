// Samples of decodes: they add up, to wall time and to what storage counted, and waiting is found where it
// was.

#include "session/model_state.h"
#include "support/fault_file.h"
#include "support/gate.h"
#include "support/gate_prompt.h"

#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace sluice::test {
namespace {

using platform::FaultFileSystem;
using platform::FaultPlan;

constexpr std::chrono::milliseconds delay{40};
constexpr double delay_seconds = 0.04;

/// A model whose reads go through a fault plan, and sessions that keep their samples.
class Telemetry : public testing::Test {
protected:
    struct Watched {
        std::vector<TokenSample> samples;
        std::optional<Session> session;

        /// All of them in one.
        [[nodiscard]] TokenSample sum() const {
            TokenSample all;
            for (const TokenSample &sample : samples) {
                all.time += sample.time;
                all.batch_tokens += sample.batch_tokens;
                all.expert_reads += sample.expert_reads;
                all.expert_read_bytes += sample.expert_read_bytes;
                all.speculative_reads += sample.speculative_reads;
                all.speculative_read_bytes += sample.speculative_read_bytes;
                all.row_reads += sample.row_reads;
                all.row_read_bytes += sample.row_read_bytes;
                all.hits += sample.hits;
                all.misses += sample.misses;
                all.evictions += sample.evictions;
            }
            return all;
        }
    };

    void load(ModelOptions options) {
        auto state = session::load_model(options, files_);
        ASSERT_TRUE(state) << state.error().message;
        model_.emplace(Model::from_state(std::move(*state)));
    }

    void load_experts(bool direct = true, CacheSize cache = CacheSize::Minimum) {
        const std::string path = tiny_model("tiny-qwen3moe", "q4_K");
        load({.path = path,
              .stream = StreamMode::Force,
              .cache_bytes = cache_bytes(path, cache, direct),
              .io_threads = 2,
              .direct = direct});
    }

    std::unique_ptr<Watched> watched_session(SessionOptions options = {
                                                 .context_tokens = 256, .ubatch_tokens = 64, .threads = 2}) {
        auto watched = std::make_unique<Watched>();
        options.on_sample = [to = watched.get()](const TokenSample &sample) {
            to->samples.push_back(sample);
        };
        auto session = Session::create(*model_, options);
        EXPECT_TRUE(session) << session.error().message;
        watched->session.emplace(std::move(*session));
        return watched;
    }

    /// A prompt of 70 tokens, which is two ubatches, and `drawn` tokens after it.
    static void run(Session &session, int drawn = 6) {
        ASSERT_TRUE(session.decode(gate_prompt(0, 70, session.vocab_size())));
        for (int i = 0; i < drawn; ++i) {
            const Token token = greedy(session.logits().data(), session.vocab_size());
            ASSERT_TRUE(session.decode({&token, 1}));
        }
    }

    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    FaultFileSystem files_{plan_};
    std::optional<Model> model_;
};

TEST(TimeParts, WhatRoundingLeavesIsNothing) {
    const TimeParts resident{.wall = 0.3, .compute = 0.1, .between = 0.2}; // 0.3 - 0.1 - 0.2 is below 0
    EXPECT_EQ(resident.other(), 0);
    EXPECT_FALSE(std::signbit(resident.other()));
    EXPECT_DOUBLE_EQ((TimeParts{.wall = 0.3, .compute = 0.1}).other(), 0.2);
}

TEST_F(Telemetry, OneSampleForEachUbatchAndEachToken) {
    load_experts();
    const auto watched = watched_session();
    run(*watched->session, 3);
    ASSERT_EQ(watched->samples.size(), 5U);
    EXPECT_EQ(watched->samples[0].phase, Phase::Prefill);
    EXPECT_EQ(watched->samples[0].batch_tokens, 64U);
    EXPECT_EQ(watched->samples[1].batch_tokens, 6U);
    EXPECT_EQ(watched->samples[1].computed, 70U);
    EXPECT_EQ(watched->samples[4].phase, Phase::Decode);
    EXPECT_EQ(watched->samples[4].computed, 73U);
}

TEST_F(Telemetry, PartsAreMeasuredAndOtherIsWhatIsLeft) {
    load_experts();
    const auto watched = watched_session();
    run(*watched->session, 20);
    for (const TokenSample &sample : watched->samples) {
        const TimeParts &time = sample.time;
        for (const double part : {time.compute, time.expert_wait, time.row_wait, time.cache, time.between}) {
            EXPECT_GE(part, 0.0);
        }
        EXPECT_GE(time.other(), 0.0) << "something was counted twice";
        EXPECT_DOUBLE_EQ(time.compute + time.expert_wait + time.row_wait + time.cache + time.between +
                             time.other(),
                         time.wall);
    }
    const TimeParts all = watched->sum().time;
    std::printf("other: %.2f %% of %.1f ms\n", 100 * all.other() / all.wall, all.wall * 1e3);
}

TEST_F(Telemetry, CountsAreThoseOfTheStoragePort) {
    struct Case {
        bool direct;
        CacheSize cache;
    };
    for (const auto &[direct, cache] : {Case{false, CacheSize::Minimum}, Case{true, CacheSize::Minimum},
                                        Case{false, CacheSize::Everything}}) {
        SCOPED_TRACE(std::string(direct ? "direct" : "buffered") + ", cache " +
                     std::to_string(static_cast<int>(cache)));
        load_experts(direct, cache);
        const auto watched = watched_session();
        run(*watched->session);
        session::ModelState &state = model_->state();
        state.streamed->store->cache()->wait_idle();
        const storage::ReadCounters port = state.streamed->reads->counters();
        const TokenSample sum = watched->sum();
        EXPECT_GT(sum.expert_reads, 0U);
        EXPECT_EQ(sum.speculative_reads > 0, cache == CacheSize::Everything) << "a long prompt reads ahead";
        EXPECT_EQ(sum.expert_reads + sum.speculative_reads, port.reads);
        if (!direct) { // the port counts what must be read before a slice to be aligned
            EXPECT_EQ(sum.expert_read_bytes + sum.speculative_read_bytes, port.bytes);
        }
        const ExpertStats stats = watched->session->stats().experts;
        EXPECT_EQ(sum.hits, stats.hits);
        EXPECT_EQ(sum.misses, stats.misses);
        EXPECT_EQ(sum.evictions, stats.evictions);
        EXPECT_EQ(sum.expert_read_bytes + sum.speculative_read_bytes, stats.bytes_read);
        watched->session.reset();
        model_.reset();
    }
}

TEST_F(Telemetry, CountsOfRowsAreThoseOfTheStoragePort) {
    for (const char *recipe : {"tiny-vocab", "tiny-hashed"}) {
        SCOPED_TRACE(recipe);
        load({.path = tiny_model(recipe),
              .stream = StreamMode::Force,
              .row_stream = true,
              .row_window_bytes = residency::slab_bytes()});
        const auto watched = watched_session();
        run(*watched->session);
        const storage::ReadCounters port = model_->state().streamed->row_reads->counters();
        const TokenSample sum = watched->sum();
        EXPECT_GT(sum.row_reads, 0U);
        EXPECT_EQ(sum.row_reads, port.reads);
        EXPECT_EQ(sum.row_read_bytes, port.bytes);
        watched->session.reset();
        model_.reset();
    }
}

TEST_F(Telemetry, SessionsOnOneModelCountOnlyTheirOwn) {
    load_experts();
    const auto one = watched_session();
    const auto other = watched_session();
    run(*one->session, 2);
    run(*other->session, 4);
    run(*one->session, 2);
    const ExpertStats both = one->session->stats().experts;
    EXPECT_GT(one->sum().misses, 0U);
    EXPECT_GT(other->sum().misses, 0U);
    EXPECT_EQ(one->sum().misses + other->sum().misses, both.misses);
    EXPECT_EQ(one->sum().hits + other->sum().hits, both.hits);
}

TEST_F(Telemetry, LateExpertsAreFoundAsWaitingForExperts) {
    load_experts();
    const auto watched = watched_session();
    plan_->add({.nth = 1, .and_after = true, .delay = delay}); // each layer begins with one at least
    const Token token = 1;
    ASSERT_TRUE(watched->session->decode({&token, 1}));
    const TimeParts &time = watched->samples.at(0).time;
    EXPECT_GE(time.expert_wait, delay_seconds);
    EXPECT_LT(time.compute, time.expert_wait);
    EXPECT_EQ(time.row_wait, 0.0);
}

TEST_F(Telemetry, OneLateExpertIsFoundWhileTheOthersAreThere) {
    load_experts();
    const auto watched = watched_session();
    const Token token = 1;
    ASSERT_TRUE(watched->session->decode({&token, 1}));
    plan_->add({.nth = 2, .delay = 5 * delay});
    const Token next = 7;
    ASSERT_TRUE(watched->session->decode({&next, 1}));
    ASSERT_EQ(plan_->counts().struck, 1U);
    EXPECT_GE(watched->samples.at(1).time.expert_wait, 4 * delay_seconds);
    EXPECT_LT(watched->samples.at(1).time.compute, watched->samples.at(1).time.expert_wait);
}

TEST_F(Telemetry, LateRowsAreFoundAsWaitingForRows) {
    load({.path = tiny_model("tiny-gemma-dense"), // no experts: all reads are of rows
          .stream = StreamMode::Force,
          .row_stream = true,
          .row_window_bytes = residency::slab_bytes()});
    const auto watched = watched_session();
    plan_->add({.nth = 1, .and_after = true, .delay = 2 * delay});
    const Token token = 1;
    ASSERT_TRUE(watched->session->decode({&token, 1}));
    const TimeParts &time = watched->samples.at(0).time;
    EXPECT_GE(time.row_wait, delay_seconds);
    EXPECT_LT(time.compute, time.row_wait);
    EXPECT_EQ(time.expert_wait, 0.0);
}

TEST_F(Telemetry, LateRowsThatTheGraphComputesAreFoundToo) {
    load({.path = tiny_model("tiny-hashed"),
          .stream = StreamMode::Force,
          .row_stream = true,
          .row_window_bytes = residency::slab_bytes()});
    const auto watched = watched_session();
    plan_->add({.nth = 1, .and_after = true, .delay = delay});
    const Token token = 1;
    ASSERT_TRUE(watched->session->decode({&token, 1}));
    EXPECT_GE(watched->samples.at(0).time.row_wait, delay_seconds);
}

TEST_F(Telemetry, ProcessIsMeasuredWhereTheSystemTells) {
    load_experts();
    const auto watched = watched_session();
    run(*watched->session, 1);
#ifdef __linux__
    for (const TokenSample &sample : watched->samples) {
        EXPECT_TRUE(sample.major_faults && sample.minor_faults);
        EXPECT_GT(sample.cpu_seconds.value_or(0), 0.0);
        EXPECT_GT(sample.resident_bytes.value_or(0), 0U);
    }
#endif
    EXPECT_GT(watched->samples.at(0).device_busy, 0.0);
    EXPECT_GT(watched->samples.at(0).device_bytes, 0U);
}

TEST_F(Telemetry, FailedDecodeHasNoSample) {
    load_experts();
    const auto watched = watched_session();
    plan_->add({.nth = 3, .and_after = true, .error_number = EIO});
    const std::vector<Token> prompt = gate_prompt(0, 10, watched->session->vocab_size());
    ASSERT_FALSE(watched->session->decode(prompt));
    EXPECT_TRUE(watched->samples.empty());
    plan_->clear();
    ASSERT_TRUE(watched->session->decode(prompt));
    EXPECT_EQ(watched->samples.size(), 1U);
}

TEST_F(Telemetry, TimeOfResidentModelsIsComputing) {
    load({.path = tiny_model("tiny-qwen3moe", "q4_K"), .stream = StreamMode::Never});
    const auto watched = watched_session();
    run(*watched->session, 2);
    const TokenSample sum = watched->sum();
    EXPECT_GT(sum.time.compute, 0.0);
    EXPECT_EQ(sum.time.expert_wait, 0.0);
    EXPECT_EQ(sum.expert_reads + sum.hits, 0U);
}

// -- times of nodes
// -----------------------------------------------------------------------------------------------------

TEST_F(Telemetry, TracingNodesChangesNoByte) {
    for (const StreamMode mode : {StreamMode::Force, StreamMode::Never}) {
        SCOPED_TRACE(mode == StreamMode::Force ? "streamed" : "resident");
        const std::string path = tiny_model("tiny-qwen3moe", "q4_K");
        load({.path = path, .stream = mode, .cache_bytes = cache_bytes(path, CacheSize::Minimum, true)});
        const auto plain = watched_session();
        std::set<std::string> names;
        std::set<std::string> operations;
        uint64_t nodes = 0;
        const auto traced = watched_session({.context_tokens = 256,
                                             .ubatch_tokens = 64,
                                             .threads = 2,
                                             .on_node = [&](const NodeSample &node) {
                                                 names.emplace(node.name);
                                                 operations.emplace(node.op);
                                                 EXPECT_GE(node.seconds, 0.0);
                                                 ++nodes;
                                             }});
        run(*plain->session);
        EXPECT_EQ(nodes, 0U) << "another session's nodes are told";
        run(*traced->session);
        EXPECT_EQ(std::vector<float>(traced->session->logits().begin(), traced->session->logits().end()),
                  std::vector<float>(plain->session->logits().begin(), plain->session->logits().end()));
        EXPECT_GT(nodes, 8U * 20U);
        EXPECT_TRUE(operations.contains("RMS_NORM+MUL"));
        EXPECT_TRUE(operations.contains("MUL_MAT"));
        EXPECT_EQ(names.contains("multiply_experts"), mode == StreamMode::Force);
        plain->session.reset();
        traced->session.reset();
        model_.reset();
    }
}

} // namespace
} // namespace sluice::test
