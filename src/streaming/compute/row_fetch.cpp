#include "streaming/compute/row_fetch.h"

#include "streaming/compute/step_clock.h"

#include "ggml-backend.h"

#include <fmt/format.h>

namespace sluice::streaming {

const char *RowFetch::refusal(const ggml_tensor *node) {
    const ggml_tensor *index = node->src[1];
    if (index->type != GGML_TYPE_I32) {
        return "the indices of a gather are not 32-bit integers";
    }
    const ggml_tensor *root = view_root(index);
    if (root->buffer != nullptr && !ggml_backend_buffer_is_host(root->buffer)) {
        return "the indices of a gather are not in host memory";
    }
    return nullptr;
}

/// Computes the rows' offsets from the indices, as the stock kernel finds them: index (i, j, k) chooses a row
/// of the table's matrix (j, k). False if one points outside the table.
bool RowFetch::collect() {
    const ggml_tensor *source = node_->src[0];
    const ggml_tensor *index = node_->src[1];
    const auto base = static_cast<uint64_t>(static_cast<const std::byte *>(source->data) -
                                            static_cast<const std::byte *>(table_.tensor->data));
    offsets_.clear();
    bool inside = true;
    for (int64_t k = 0; k < index->ne[2]; ++k) {
        for (int64_t j = 0; j < index->ne[1]; ++j) {
            for (int64_t i = 0; i < index->ne[0]; ++i) {
                auto *chosen =
                    reinterpret_cast<int32_t *>(static_cast<std::byte *>(index->data) + i * index->nb[0] +
                                                j * index->nb[1] + k * index->nb[2]);
                if (*chosen < 0 || *chosen >= source->ne[1]) {
                    if (!store_.failed()) {
                        store_.set_error(
                            {ErrorCode::Internal, fmt::format("a gather asks for row {} of the {} rows of {}",
                                                              *chosen, source->ne[1], table_.name)});
                    }
                    *chosen = 0;
                    inside = false;
                }
                offsets_.push_back(base + static_cast<uint64_t>(*chosen) * source->nb[1] +
                                   static_cast<uint64_t>(j) * source->nb[2] +
                                   static_cast<uint64_t>(k) * source->nb[3]);
            }
        }
    }
    return inside;
}

bool RowFetch::begin(residency::Overshoot overshoot) {
    const size_t row_bytes = ggml_row_size(node_->src[0]->type, node_->src[0]->ne[0]);
    return store_.rows()->begin(gather_, table_.index, offsets_, row_bytes, overshoot);
}

void RowFetch::start() {
    if (table_.materialized || store_.failed() || !collect()) {
        return;
    }
    if (begin(residency::Overshoot::Never)) {
        started_ = offsets_;
    }
}

void RowFetch::fetch() {
    const auto start = Clock::now();
    uint64_t waited = 0;
    if (!table_.materialized && collect() && !store_.failed()) {
        waited = read_rows();
    }
    store_.counters.row_stall_nanoseconds += waited;
    store_.counters.cache_nanoseconds += nanoseconds_since(start) - waited;
    fetched_.store(true, std::memory_order_release);
    fetched_.notify_all();
}

/// Returns how long it waited, in nanoseconds.
uint64_t RowFetch::read_rows() {
    residency::IRowSource &rows = *store_.rows();
    if (gather_.active && started_ != offsets_) {
        rows.end(gather_); // something wrote to the indices since
    }
    if (!gather_.active) {
        begin(residency::Overshoot::Allowed);
    }
    const auto start = Clock::now();
    const Status arrived = rows.wait(gather_);
    const uint64_t waited = nanoseconds_since(start);
    if (!arrived) {
        store_.set_error(arrived.error());
    }
    return waited;
}

void RowFetch::give_up() {
    fetched_.store(true, std::memory_order_release);
    fetched_.notify_all();
}

void RowFetch::release() {
    if (gather_.active) {
        store_.rows()->end(gather_);
    }
}

} // namespace sluice::streaming
