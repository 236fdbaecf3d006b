#include "route_use.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <span>

namespace sluice::cli {

namespace {

// Beyond any model; a damaged first line must not ask for all memory.
constexpr uint64_t kMostSlots = uint64_t{1} << 24;
constexpr size_t kMostPlaces = 400; // at which a window's size over time is looked at: a chart's width

/// One decision of a decoded token.
struct Decision {
    uint32_t layer = 0;
    std::vector<uint32_t> experts; ///< each once
};

using Token = std::vector<Decision>;

/// A trace, as much of it as is needed for counting.
struct Trace {
    uint32_t layers = 0;
    uint32_t experts = 0;
    std::vector<Token> tokens; ///< decoded
    uint64_t prefill_tokens = 0;
    std::vector<bool> prefilled;
};

class Reader {
public:
    Reader(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

    Result<Trace> read() {
        if (const Status header = read_header(); !header) {
            return fail(header.error());
        }
        bool any = false;
        while (!rest_.empty()) {
            if (const Status line = read_decision(); !line) {
                return fail(line.error());
            }
            any = true;
        }
        if (!any) {
            return fail(ErrorCode::InvalidFormat, fmt::format("{} holds no routing decisions", name_));
        }
        return std::move(trace_);
    }

private:
    [[nodiscard]] Status bad(std::string_view why) const {
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
                return bad("this is no routing trace, whose lines are numbers");
            }
            numbers_.push_back(number);
            line.remove_prefix(word.size());
        }
    }

    Status read_header() {
        if (rest_.empty()) {
            return fail(ErrorCode::InvalidFormat, fmt::format("{} is empty, and so no routing trace", name_));
        }
        if (Status line = next_line(); !line) {
            return line;
        }
        if (numbers_.size() != 2) {
            return bad("a routing trace begins with the number of layers and that of experts");
        }
        trace_.layers = numbers_[0];
        trace_.experts = numbers_[1];
        const uint64_t slots = uint64_t{trace_.layers} * trace_.experts;
        if (slots == 0 || slots > kMostSlots) {
            return bad(fmt::format("there is no model of {} layers with {} experts each", trace_.layers,
                                   trace_.experts));
        }
        trace_.prefilled.resize(slots);
        return {};
    }

    Status read_decision() {
        if (Status line = next_line(); !line) {
            return line;
        }
        if (numbers_.size() < 3) {
            return bad("a phase, a layer and at least one expert are needed");
        }
        if (numbers_[0] > 1) {
            return bad(fmt::format("the phase is 0 (prefill) or 1 (decode), not {}", numbers_[0]));
        }
        const uint32_t layer = numbers_[1];
        if (layer >= trace_.layers) {
            return bad(fmt::format("layer {} is not below the {} of the first line", layer, trace_.layers));
        }
        std::vector<uint32_t> experts(numbers_.begin() + 2, numbers_.end());
        std::sort(experts.begin(), experts.end());
        experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
        if (experts.back() >= trace_.experts) {
            return bad(fmt::format("expert {} is not below the {} of the first line", experts.back(),
                                   trace_.experts));
        }
        if (numbers_[0] == 0) {
            add_prefill(layer, experts);
        } else {
            add_decoded({.layer = layer, .experts = std::move(experts)});
        }
        return {};
    }

    void add_prefill(uint32_t layer, std::span<const uint32_t> experts) {
        if (first_prefill_layer_ > layer) {
            first_prefill_layer_ = layer;
            trace_.prefill_tokens = 0;
        }
        trace_.prefill_tokens += layer == first_prefill_layer_ ? 1 : 0;
        for (const uint32_t expert : experts) {
            trace_.prefilled[size_t{layer} * trace_.experts + expert] = true;
        }
        token_ended_ = true;
    }

    void add_decoded(Decision decision) {
        if (trace_.tokens.empty() || token_ended_ || decision.layer <= trace_.tokens.back().back().layer) {
            trace_.tokens.emplace_back();
        }
        token_ended_ = false;
        trace_.tokens.back().push_back(std::move(decision));
    }

    std::string_view rest_;
    const std::string_view name_;
    size_t line_ = 0;
    std::vector<uint32_t> numbers_;
    uint32_t first_prefill_layer_ = UINT32_MAX;
    bool token_ended_ = true;
    Trace trace_;
};

template <typename Function>
void for_each_slot(const Trace &trace, const Token &token, Function function) {
    for (const Decision &decision : token) {
        for (const uint32_t expert : decision.experts) {
            function(size_t{decision.layer} * trace.experts + expert);
        }
    }
}

/// Slides a window of `length` tokens over the trace, which has at least as many.
RouteUse::Window count_window(const Trace &trace, uint32_t length) {
    RouteUse::Window window{.tokens = length, .mean_slots = 0, .most_slots = 0, .ends = {}, .slots = {}};
    const size_t places = trace.tokens.size() - length + 1;
    // The same places for windows of all lengths, so that a chart can show them together.
    const size_t step = (trace.tokens.size() + kMostPlaces - 1) / kMostPlaces;
    std::vector<uint32_t> uses(size_t{trace.layers} * trace.experts); // in the window
    uint64_t used = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < trace.tokens.size(); ++i) {
        for_each_slot(trace, trace.tokens[i], [&](size_t slot) { used += uses[slot]++ == 0 ? 1 : 0; });
        if (i >= length) {
            for_each_slot(trace, trace.tokens[i - length],
                          [&](size_t slot) { used -= --uses[slot] == 0 ? 1 : 0; });
        }
        if (i + 1 < length) {
            continue;
        }
        sum += used;
        window.most_slots = std::max(window.most_slots, used);
        if (i % step == 0) {
            window.ends.push_back(static_cast<uint32_t>(i + 1));
            window.slots.push_back(used);
        }
    }
    window.mean_slots = static_cast<double>(sum) / static_cast<double>(places);
    return window;
}

void count_tokens(const Trace &trace, RouteUse &use) {
    std::vector<size_t> last_use(use.uses.size(), SIZE_MAX);
    for (size_t i = 0; i < trace.tokens.size(); ++i) {
        for_each_slot(trace, trace.tokens[i], [&](size_t slot) {
            ++use.uses[slot];
            use.repeats[slot / trace.experts] += i > 0 && last_use[slot] == i - 1 ? 1 : 0;
            last_use[slot] = i;
        });
    }
}

} // namespace

Result<RouteUse> count_route_use(std::string_view trace, std::string_view name) {
    auto read = Reader(trace, name).read();
    if (!read) {
        return fail(read.error());
    }
    RouteUse use;
    use.layers = read->layers;
    use.experts = read->experts;
    use.tokens = read->tokens.size();
    use.prefill_tokens = read->prefill_tokens;
    use.prefilled = std::move(read->prefilled);
    use.uses.resize(size_t{use.layers} * use.experts);
    use.repeats.resize(use.layers);
    count_tokens(*read, use);
    for (uint64_t length = 1; length <= use.tokens; length *= 2) {
        use.windows.push_back(count_window(*read, static_cast<uint32_t>(length)));
    }
    return use;
}

} // namespace sluice::cli
