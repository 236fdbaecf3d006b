// Answers the requests of docs/flash.md. Whose HTTP it is does not matter here.
#pragma once

#include "monitor.h"
#include "state_json.h"

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace sluice::flash {

/// What a request needs to be judged by. Names of headers are in small letters.
struct FlashRequest {
    std::string body;
    std::map<std::string, std::string> headers;
};

struct FlashReply {
    int status = 200;
    std::string body;
    std::string content_type = "application/json; charset=utf-8";
};

/// Thread-safe. Whoever calls has checked the API key.
class FlashApi {
public:
    /// `models` outlives it. `samples`: as Monitor's `starts`.
    FlashApi(IFlashModels &models, StartFacts start, bool samples = true);

    FlashReply state();
    FlashReply change(const FlashRequest &request);
    FlashReply trim(const FlashRequest &request);

    /// The next message of a stream of events, waiting for it; `seen` is the stream's own and starts at 0.
    /// Empty: the stream ends.
    std::optional<std::string> next_event(uint64_t &seen);

    /// What /metrics has beside llama.cpp's own.
    std::string metrics();

    [[nodiscard]] Monitor &monitor() { return monitor_; }

    /// Ends all streams.
    void close() { monitor_.close(); }

private:
    std::string state_text(bool with_history);
    FlashReply change_model(const nlohmann::json &wanted);

    IFlashModels &models_;
    const StartFacts start_;
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    std::mutex mutex_; ///< guards what the panel has changed; held while it changes it
    ChangedSettings changed_;
    Monitor monitor_;
};

} // namespace sluice::flash
