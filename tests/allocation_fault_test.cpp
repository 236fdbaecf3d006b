// The n-th allocation fails, for every n: on threads that read, and within a graph. The outcome is the same
// bytes or one clear error, and the model goes on.
#include "support/failing_new.h"
#include "support/fault_file.h"
#include "support/gate_prompt.h"
#include "support/own_graph.h"

#include <cerrno>

namespace sluice::test {
namespace {

class FailingAllocations : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-qwen3moe", "q8_0"),
              .stream = StreamMode::Force,
              .cache_bytes = cache_bytes(tiny_model("tiny-qwen3moe", "q8_0"), CacheSize::Minimum, true),
              .lookahead = 4},
             streaming::Role::Experts);
        product_ = ggml_mul_mat_id(context_.get(), weight_, input_, ids_);
        EXPECT_EQ(compute(product_, {1, 2, 2, 5}, backend_.get()), GGML_STATUS_SUCCESS);
        expected_ = values(product_);
    }

    ggml_tensor *product_ = nullptr;
    std::vector<float> expected_;
};

TEST_F(FailingAllocations, WithinAGraphFailItOrChangeNothing) {
    ggml_cgraph *graph = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph, product_);
    int failures = 0;
    bool happened = true;
    for (int nth = 0; happened; ++nth) {
        store().cache()->set_limit(0); // so that slices are read
        store().cache()->set_limit(SIZE_MAX / 2);
        ggml_status status = GGML_STATUS_FAILED;
        {
            const FailingAllocation failing(Allocations::OfAll, nth);
            status = ggml_backend_graph_compute(backend_.get(), graph);
            happened = failing.happened();
        }
        if (status == GGML_STATUS_SUCCESS) {
            EXPECT_EQ(values(product_), expected_) << "allocation " << nth;
        } else {
            ++failures;
            const auto error = streaming::take_backend_error(backend_.get());
            ASSERT_TRUE(error) << "allocation " << nth;
            EXPECT_EQ(error->code, ErrorCode::OutOfMemory) << error->message;
        }
        ASSERT_EQ(ggml_backend_graph_compute(backend_.get(), graph), GGML_STATUS_SUCCESS)
            << "allocation " << nth;
        EXPECT_EQ(values(product_), expected_) << "after allocation " << nth;
        ASSERT_LT(nth, 5000);
    }
    EXPECT_GT(failures, 3);
}

/// Threads that read answer somebody: whatever fails there, the answer comes.
class FailingReaders : public testing::TestWithParam<std::tuple<IoEngine, bool>> {};

TEST_P(FailingReaders, FailTheCallOrChangeNothing) {
    const auto [engine, device_fails] = GetParam();
    const std::string path = tiny_model("tiny-qwen3moe", "q8_0");
    const auto plan = std::make_shared<platform::FaultPlan>();
    platform::FaultFileSystem files(plan);
    auto state = session::load_model({.path = path,
                                      .stream = StreamMode::Force,
                                      .cache_bytes = cache_bytes(path, CacheSize::Minimum, true),
                                      .io_engine = engine,
                                      .lookahead = 4},
                                     device_fails ? files : platform::system_files());
    ASSERT_TRUE(state) << state.error().message;
    Model model = Model::from_state(std::move(*state));
    auto session = Session::create(model, {.context_tokens = 256, .threads = 1});
    ASSERT_TRUE(session);
    const std::vector<Token> prompt = gate_prompt(0, 6, session->vocab_size());
    ASSERT_TRUE(session->decode(prompt));
    const std::vector<float> expected(session->logits().begin(), session->logits().end());
    bool happened = true;
    for (int nth = 0; happened && nth < 400; ++nth) {
        session->reset();
        if (device_fails) {
            plan->add({.nth = 1, .and_after = true, .error_number = EIO});
        }
        bool decoded = false;
        {
            const FailingAllocation failing(Allocations::OfOtherThreads, nth);
            decoded = session->decode(prompt).has_value();
            happened = failing.happened();
        }
        plan->clear();
        if (decoded) {
            EXPECT_EQ(std::vector<float>(session->logits().begin(), session->logits().end()), expected);
        }
        session->reset();
        ASSERT_TRUE(session->decode(prompt)) << "allocation " << nth;
        EXPECT_EQ(std::vector<float>(session->logits().begin(), session->logits().end()), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, FailingReaders,
                         testing::Combine(testing::Values(IoEngine::Threads, IoEngine::Uring),
                                          testing::Bool()),
                         [](const auto &info) {
                             return std::string(std::get<0>(info.param) == IoEngine::Threads ? "Threads"
                                                                                             : "Uring") +
                                    (std::get<1>(info.param) ? "WhereReadsFail" : "");
                         });

} // namespace
} // namespace sluice::test
