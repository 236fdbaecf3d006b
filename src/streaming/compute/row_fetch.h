// One gather from a row table at run time: its rows are brought in before the stock kernel reads them.
#pragma once

#include "residency/row_source.h"
#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace sluice::streaming {

/// One GET_ROWS node and the table that it reads. start(), fetch() and release() are called by one thread, in
/// that order; wait_fetched() by the other compute threads while fetch() runs.
class RowFetch {
public:
    /// `node` gathers from `table` or a view of it; see can_fetch().
    RowFetch(ggml_tensor *node, StreamedTensor &table, StreamedStore &store)
        : node_(node), table_(table), store_(store) {}
    ~RowFetch() { release(); }
    RowFetch(const RowFetch &) = delete;
    RowFetch &operator=(const RowFetch &) = delete;

    /// Why the indices of a gather can't be read by us; null if they can.
    static const char *refusal(const ggml_tensor *node);

    /// Whether the indices are an input of the graph, so that start() may read them.
    [[nodiscard]] bool known_at_start() const { return is_graph_input(node_->src[1]); }

    /// Forgets the run before. Called before the graph is computed.
    void reset() { fetched_.store(false, std::memory_order_relaxed); }

    /// Begins reading if the window has room; otherwise fetch() does. Returns at once.
    void start();

    /// Reads what is missing and returns when all rows are there, or with the store's error set. Indices that
    /// point outside the table fail the graph and become 0, since the stock kernel would abort the process.
    void fetch();

    /// Sleeps until fetch() is done.
    void wait_fetched() const { fetched_.wait(false, std::memory_order_acquire); }

    /// Lets waiters go though fetch() could not end.
    void give_up();

    /// Gives the rows up, however the graph ended.
    void release();

private:
    bool collect();
    bool begin(residency::Overshoot overshoot);
    uint64_t read_rows();

    ggml_tensor *node_;
    StreamedTensor &table_;
    StreamedStore &store_;
    std::vector<uint64_t> offsets_; ///< of the rows in the table, in bytes
    std::vector<uint64_t> started_; ///< what start() has begun with
    residency::RowGather gather_;
    std::atomic<bool> fetched_{false};
};

} // namespace sluice::streaming
