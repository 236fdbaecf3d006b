#include "route_use.h"

#include "telemetry/route_trace.h"

#include <algorithm>

namespace sluice::cli {

namespace {

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

std::vector<uint32_t> each_once(std::vector<uint32_t> experts) {
    std::sort(experts.begin(), experts.end());
    experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
    return experts;
}

/// Takes a trace apart into what is counted.
class Sorter {
public:
    explicit Sorter(const telemetry::RouteTrace &trace) {
        sorted_.layers = trace.layers;
        sorted_.experts = trace.experts;
        sorted_.prefilled.resize(size_t{trace.layers} * trace.experts);
        for (const telemetry::RouteDecision &decision : trace.decisions) {
            if (decision.prefill) {
                add_prefill(decision);
            } else {
                add_decoded({.layer = decision.layer, .experts = each_once(decision.tokens.front())});
            }
        }
    }

    Trace take() { return std::move(sorted_); }

private:
    void add_prefill(const telemetry::RouteDecision &decision) {
        if (first_prefill_layer_ > decision.layer) {
            first_prefill_layer_ = decision.layer;
            sorted_.prefill_tokens = 0;
        }
        sorted_.prefill_tokens += decision.layer == first_prefill_layer_ ? decision.tokens.size() : 0;
        for (const std::vector<uint32_t> &experts : decision.tokens) {
            for (const uint32_t expert : experts) {
                sorted_.prefilled[size_t{decision.layer} * sorted_.experts + expert] = true;
            }
        }
        token_ended_ = true;
    }

    void add_decoded(Decision decision) {
        if (sorted_.tokens.empty() || token_ended_ || decision.layer <= sorted_.tokens.back().back().layer) {
            sorted_.tokens.emplace_back();
        }
        token_ended_ = false;
        sorted_.tokens.back().push_back(std::move(decision));
    }

    uint32_t first_prefill_layer_ = UINT32_MAX;
    bool token_ended_ = true;
    Trace sorted_;
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
    const auto read = telemetry::parse_route_trace(trace, name);
    if (!read) {
        return fail(read.error());
    }
    Trace sorted = Sorter(*read).take();
    RouteUse use;
    use.layers = sorted.layers;
    use.experts = sorted.experts;
    use.tokens = sorted.tokens.size();
    use.prefill_tokens = sorted.prefill_tokens;
    use.prefilled = std::move(sorted.prefilled);
    use.uses.resize(size_t{use.layers} * use.experts);
    use.repeats.resize(use.layers);
    count_tokens(sorted, use);
    for (uint64_t length = 1; length <= use.tokens; length *= 2) {
        use.windows.push_back(count_window(sorted, static_cast<uint32_t>(length)));
    }
    return use;
}

} // namespace sluice::cli
