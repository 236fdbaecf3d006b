// Gathers and other uses of row tables that llama.cpp does not build, in graphs of our own.

#include "residency/row_source.h"
#include "support/own_graph.h"

namespace sluice::test {
namespace {

/// A model with one row table, in a window of one slab.
class OwnGather : public OwnGraphTest {
protected:
    void SetUp() override {
        load({.path = tiny_model("tiny-vocab"),
              .stream = StreamMode::Force,
              .cache_bytes = uint64_t{64} << 20U,
              .row_stream = true,
              .row_window_bytes = residency::slab_bytes()},
             streaming::Role::Rows);
    }

    /// The table's bytes from the file, in a plain CPU buffer.
    ggml_tensor *plain_table() {
        plain_bytes_.resize(ggml_nbytes(weight_) + 64);
        auto *aligned =
            reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(plain_bytes_.data()) + 63) / 64 * 64);
        EXPECT_TRUE(store().read_weight(*store().find(weight_), 0, {aligned, ggml_nbytes(weight_)}));
        ggml_tensor *plain =
            ggml_new_tensor_2d(context_.get(), weight_->type, weight_->ne[0], weight_->ne[1]);
        ggml_set_input(plain);
        plain_buffer_.reset(ggml_backend_cpu_buffer_from_ptr(aligned, ggml_nbytes(weight_)));
        plain->data = aligned;
        plain->buffer = plain_buffer_.get();
        return plain;
    }

    /// Computes `make(table)` on the streamed table and on plain bytes; both must be equal.
    template <typename Make>
    void expect_same(const Make &make, const std::vector<int32_t> &ids) {
        ggml_tensor *streamed = make(weight_);
        ASSERT_EQ(compute(streamed, ids, backend_.get()), GGML_STATUS_SUCCESS);
        const std::vector<float> got = values(streamed);
        ggml_tensor *expected = make(plain_table());
        const std::unique_ptr<ggml_backend, Free> cpu(ggml_backend_cpu_init());
        ASSERT_EQ(compute(expected, ids, cpu.get()), GGML_STATUS_SUCCESS);
        EXPECT_EQ(got, values(expected));
    }

    ggml_tensor *flat_ids() { return ggml_reshape_1d(context_.get(), ids_, 4); }

    std::vector<std::byte> plain_bytes_;
    std::unique_ptr<ggml_backend_buffer, Free> plain_buffer_;
};

TEST_F(OwnGather, RowsAreFetchedInTheOrderTheGraphAsks) {
    const residency::RowCounters before = store().rows()->counters();
    const auto last = static_cast<int32_t>(weight_->ne[1] - 1);
    expect_same([&](ggml_tensor *table) { return ggml_get_rows(context_.get(), table, flat_ids()); },
                {last, 0, 17, 0});
    const residency::RowCounters after = store().rows()->counters();
    EXPECT_EQ(after.rows - before.rows, 4U);
    EXPECT_GE(after.reads - before.reads, 2U);
    EXPECT_LE(after.resident_bytes, residency::slab_bytes());
}

TEST_F(OwnGather, IndexComputedInTheGraphIsReadWhenItIsThere) {
    // The order of the input's first values: only known once the graph has sorted them.
    expect_same(
        [&](ggml_tensor *table) {
            ggml_tensor *values = ggml_view_1d(context_.get(), input_, 64, 0);
            return ggml_get_rows(context_.get(), table,
                                 ggml_argsort(context_.get(), values, GGML_SORT_ORDER_DESC));
        },
        {});
    EXPECT_EQ(store().counters.materialized, 0U);
}

TEST_F(OwnGather, ViewOfATableIsStillItsRows) {
    expect_same(
        [&](ggml_tensor *table) {
            ggml_tensor *lower = ggml_view_2d(context_.get(), table, table->ne[0], table->ne[1] - 100,
                                              table->nb[1], 100 * table->nb[1]);
            return ggml_get_rows(context_.get(), lower, flat_ids());
        },
        {5, 90, 2, 5});
    EXPECT_EQ(store().counters.materialized, 0U);
}

TEST_F(OwnGather, TwoGathersOfOneGraphOvershootOneAtATime) {
    expect_same(
        [&](ggml_tensor *table) {
            ggml_tensor *first = ggml_get_rows(context_.get(), table, flat_ids());
            ggml_tensor *second =
                ggml_get_rows(context_.get(), table, ggml_view_1d(context_.get(), ids_, 2, 4));
            return ggml_add(context_.get(),
                            ggml_view_2d(context_.get(), first, first->ne[0], 2, first->nb[1], 0), second);
        },
        {1000, 2000, 3000, 4000});
    EXPECT_LE(store().rows()->counters().resident_bytes, residency::slab_bytes());
}

TEST_F(OwnGather, RowOutsideTheTableFailsTheGraphOnly) {
    ggml_tensor *gathered = ggml_get_rows(context_.get(), weight_, flat_ids());
    for (const int32_t wrong : {-1, static_cast<int32_t>(weight_->ne[1])}) {
        EXPECT_EQ(compute(gathered, {1, wrong, 2, 3}, backend_.get()), GGML_STATUS_FAILED);
        const auto error = streaming::take_backend_error(backend_.get());
        ASSERT_TRUE(error);
        EXPECT_NE(error->message.find("row " + std::to_string(wrong)), std::string::npos) << error->message;
    }
    EXPECT_EQ(compute(gathered, {1, 2, 3, 4}, backend_.get()), GGML_STATUS_SUCCESS);
}

TEST_F(OwnGather, TableMultipliedAfterItWasServedIsBroughtInOnceAndSaysSo) {
    const GateConfig config{.model = path_, .drawn = 8};
    const std::vector<float> stock = run_stock(config);
    EXPECT_EQ(run_session(*model_, config), stock);
    EXPECT_GT(store().rows()->counters().reads, 0U) << "it must have been served before";

    testing::internal::CaptureStderr();
    const auto multiply = [&](ggml_tensor *table) {
        return ggml_mul_mat(context_.get(), table, ggml_reshape_2d(context_.get(), input_, table->ne[0], 2));
    };
    expect_same(multiply, {});
    expect_same(multiply, {});
    const std::string said = testing::internal::GetCapturedStderr();
    const std::string name = store().find(weight_)->name;
    EXPECT_NE(said.find(name), std::string::npos) << said;
    EXPECT_NE(said.find("MUL_MAT reads it as source 0"), std::string::npos) << said;
    EXPECT_EQ(said.find(name), said.rfind(name)) << "once: " << said;
    EXPECT_EQ(store().counters.materialized, 1U);
    EXPECT_EQ(store().row_table_bytes(), 0U);

    const uint64_t reads = store().rows()->counters().reads;
    EXPECT_EQ(run_session(*model_, config), stock);
    EXPECT_EQ(store().rows()->counters().reads, reads) << "from then on as without row streaming";
    EXPECT_FALSE(model_->row_tables().at(0).streamed);
}

} // namespace
} // namespace sluice::test
