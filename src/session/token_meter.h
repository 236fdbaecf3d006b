// Measures one decode after another: how long its parts took, and what it read.
#pragma once

#include "base/stats.h"
#include "platform/process_usage.h"
#include "session/model_state.h"
#include "streaming/device/intercepted_backend.h"

#include "ggml-backend.h"

#include <chrono>
#include <memory>
#include <span>

namespace sluice::session {

/// Of one session. Everything is a difference to what it saw before, so nothing is counted twice and nothing
/// between two decodes gets lost. Not thread-safe.
class TokenMeter {
public:
    /// Whether page faults, memory and processor time are looked at, which takes some system calls a token.
    void watch_process(bool watch);

    /// A call of the session begins: what happened since the last one is nobody's.
    void begin_call(const ModelState &model);

    /// Immediately before and after llama_decode. The sample lacks only what the batch was. A resident model
    /// has no `backends`; then its compute time is all of the decode.
    void begin_decode() { decode_start_ = Clock::now(); }
    TokenSample end_decode(const ModelState &model, std::span<const ggml_backend_t> backends);

    /// Time from the last sample, or the start of the call, until now: all of it between decodes.
    [[nodiscard]] TimeParts since_last() const;

private:
    using Clock = std::chrono::steady_clock;

    /// What the model's readers had done.
    struct Device {
        uint64_t busy_nanoseconds = 0;
        uint64_t bytes = 0;
    };
    static Device read_device(const ModelState &model);
    void add_graphs(std::span<const ggml_backend_t> backends, TokenSample &sample);
    void add_device(const ModelState &model, TokenSample &sample);
    void add_process(TokenSample &sample);

    Clock::time_point last_end_;
    Clock::time_point decode_start_;
    streaming::GraphTotals graphs_;
    Device device_;
    std::unique_ptr<platform::ProcessMeter> process_; ///< null: not watched
    platform::ProcessUsage usage_;
};

} // namespace sluice::session
