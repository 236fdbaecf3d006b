// A read engine whose reads end when the test says so.
#pragma once

#include "storage/read_engine.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>

namespace sluice::test {

/// Reads nothing until told to, then does so on the thread that tells. For one thread.
class HeldReadEngine final : public storage::IReadEngine {
public:
    ~HeldReadEngine() override { finish_all(); }
    void submit(std::span<storage::ReadRequest> requests) override {
        held_.insert(held_.end(), requests.begin(), requests.end());
    }
    void set_width(int /*width*/) override {}
    [[nodiscard]] storage::ReadCounters counters() const override { return {}; }

    [[nodiscard]] size_t held() const { return held_.size(); }

    /// File offset of the `index`th read held.
    [[nodiscard]] uint64_t offset(size_t index) const { return held_.at(index).offset; }

    /// Ends the read that came first.
    void finish_one() {
        storage::ReadRequest request = std::move(held_.front());
        held_.pop_front();
        const auto count = request.file->read_at(request.offset, request.into, request.access);
        request.done(count ? Status() : Status(fail(count.error())));
    }

    void finish_all() {
        while (!held_.empty()) {
            finish_one();
        }
    }

private:
    std::deque<storage::ReadRequest> held_;
};

} // namespace sluice::test
