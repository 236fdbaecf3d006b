#include "telemetry/route_trace.h"

#include <charconv>
#include <fmt/format.h>

namespace sluice::telemetry {

namespace {

// Beyond any model; a damaged first line must not ask for all memory.
constexpr uint64_t kMostSlices = uint64_t{1} << 24;

class Parser {
public:
    Parser(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

    Result<RouteTrace> parse() {
        if (rest_.empty()) {
            return fail(ErrorCode::InvalidFormat, fmt::format("{} is empty, and so no routing trace", name_));
        }
        if (auto header = parse_header(); !header) {
            return fail(header.error());
        }
        while (!rest_.empty()) {
            if (auto line = parse_decision(); !line) {
                return fail(line.error());
            }
        }
        if (trace_.decisions.empty()) {
            return fail(ErrorCode::InvalidFormat, fmt::format("{} holds no routing decisions", name_));
        }
        return std::move(trace_);
    }

private:
    tl::unexpected<Error> bad(std::string_view why) const {
        return fail(ErrorCode::InvalidFormat, fmt::format("{}, line {}: {}", name_, line_, why));
    }

    /// The numbers of the next line, to numbers_.
    Status next_line() {
        ++line_;
        const size_t end = rest_.find('\n');
        if (end == std::string_view::npos) {
            return bad("it is cut short, having no newline");
        }
        std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        numbers_.clear();
        for (;;) {
            line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
            if (line.empty()) {
                return {};
            }
            const std::string_view word = line.substr(0, line.find(' '));
            uint32_t number = 0;
            const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
            if (error != std::errc() || stop != word.data() + word.size()) {
                constexpr size_t kShown = 20; // whatever file this is, the message stays a sentence
                return bad(fmt::format("'{}' is not a number that can stand here", word.substr(0, kShown)));
            }
            numbers_.push_back(number);
            line.remove_prefix(word.size());
        }
    }

    Status parse_header() {
        if (auto line = next_line(); !line) {
            return line;
        }
        if (numbers_.size() != 2) {
            return bad("a trace begins with the number of layers and that of experts");
        }
        trace_.layers = numbers_[0];
        trace_.experts = numbers_[1];
        const uint64_t slices = uint64_t{trace_.layers} * trace_.experts;
        if (slices == 0 || slices > kMostSlices) {
            return bad(fmt::format("there is no model of {} layers with {} experts each", trace_.layers,
                                   trace_.experts));
        }
        return {};
    }

    Status parse_decision() {
        if (auto line = next_line(); !line) {
            return line;
        }
        if (numbers_.size() < 3) {
            return bad("a phase, a layer and at least one expert are needed");
        }
        const uint32_t phase = numbers_[0];
        const uint32_t layer = numbers_[1];
        if (phase > 1) {
            return bad(fmt::format("the phase is 0 (prefill) or 1 (decode), not {}", phase));
        }
        if (layer >= trace_.layers) {
            return bad(fmt::format("layer {} is not below the {} of the first line", layer, trace_.layers));
        }
        for (size_t i = 2; i < numbers_.size(); ++i) {
            if (numbers_[i] >= trace_.experts) {
                return bad(fmt::format("expert {} is not below the {} of the first line", numbers_[i],
                                       trace_.experts));
            }
        }
        auto &decisions = trace_.decisions;
        const bool prefill = phase == 0;
        if (!prefill || decisions.empty() || !decisions.back().prefill || decisions.back().layer != layer) {
            decisions.push_back({.prefill = prefill, .layer = layer, .tokens = {}});
        }
        decisions.back().tokens.emplace_back(numbers_.begin() + 2, numbers_.end());
        return {};
    }

    std::string_view rest_;
    const std::string_view name_;
    size_t line_ = 0;
    std::vector<uint32_t> numbers_;
    RouteTrace trace_;
};

} // namespace

Result<RouteTrace> parse_route_trace(std::string_view text, std::string_view name) {
    return Parser(text, name).parse();
}

} // namespace sluice::telemetry
