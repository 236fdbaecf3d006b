// Routing traces: which experts a router chose, token by token, as text.
//
// The first line is "LAYERS EXPERTS". Every other line is "PHASE LAYER EXPERT...". Phase 1 is one token
// decoded alone; the next token begins where the layer number stops growing. Phase 0 is several tokens
// computed together (a prompt): one line per token, all tokens of a layer before the next layer. A single
// such line may stand for all tokens of the layer, its experts being their union, the one used last at the
// end.
#pragma once

#include "base/error.h"
#include "residency/route_sink.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::telemetry {

/// One routing decision: the experts of each token computed together.
struct RouteDecision {
    bool prefill = false;
    uint32_t layer = 0;
    std::vector<std::vector<uint32_t>> tokens; ///< never empty, nor any of them; a decoded token is alone
};

/// A whole trace. All numbers are in range.
struct RouteTrace {
    uint32_t layers = 0;
    uint32_t experts = 0;
    std::vector<RouteDecision> decisions;
};

/// Reads a trace; `name` begins the messages. Errors: InvalidFormat, with the number of the first bad line
/// (a last line without its newline was cut short).
Result<RouteTrace> parse_route_trace(std::string_view text, std::string_view name);

/// Writes a trace of one model's decisions while they are made. Every line is written at once and whole, so
/// that a run that is interrupted, or killed, leaves a trace that can be read. status() may be
/// called from any thread, the rest by one at a time.
class RouteTraceWriter final : public IRouteSink {
public:
    /// Creates the file, or empties it. Errors: PermissionDenied, NotFound, Io.
    static Result<std::unique_ptr<RouteTraceWriter>> create(const std::string &path);

    ~RouteTraceWriter() override;
    RouteTraceWriter(const RouteTraceWriter &) = delete;
    RouteTraceWriter &operator=(const RouteTraceWriter &) = delete;

    void begin(uint32_t layers, uint32_t experts) override;
    void routed(uint32_t layer, std::span<const uint32_t> experts, size_t per_token) override;

    /// The first failure, if there was one; nothing is written after it.
    [[nodiscard]] Status status() const;

    /// Ends the file, once nothing comes any more. Errors: as status().
    Status close();

private:
    RouteTraceWriter(std::string path, int file) : path_(std::move(path)), file_(file) {}
    void write(std::string_view line);

    const std::string path_;
    int file_;
    uint64_t written_ = 0; ///< bytes of whole lines
    std::string line_;
    std::optional<uint32_t> last_layer_;
    bool prefill_ = false;      ///< several tokens entered the first layer together
    std::atomic<int> error_{0}; ///< errno of the first failure
};

} // namespace sluice::telemetry
