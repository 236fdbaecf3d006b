#include "options/option_table.h"

#include "options/cache_policy.h"
#include "platform/user_cache.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace sluice::options {

namespace {

/// Empty unless all of `text` is a number. What std::from_chars() takes, which libc++ lacks for floating
/// point.
template <typename T>
std::optional<T> parse(std::string_view text) {
    T value{};
    if constexpr (std::is_floating_point_v<T>) {
        if (text.starts_with('+') || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
            return std::nullopt;
        }
        std::istringstream in{std::string(text)};
        in.imbue(std::locale::classic());
        in >> std::noskipws >> value;
        return in && in.peek() == std::istringstream::traits_type::eof() ? std::optional(value)
                                                                         : std::nullopt;
    } else {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole ? std::optional(value) : std::nullopt;
    }
}

template <typename T>
std::optional<T> number(std::string_view text, T least, T most) {
    const auto value = parse<T>(text);
    return value && *value >= least && *value <= most ? value : std::nullopt;
}

/// What a row's `set` says of a value that it does not take; the name is put before it.
tl::unexpected<Error> not_one(std::string_view value, const std::string &wanted) {
    return fail(ErrorCode::InvalidArgument, fmt::format("'{}' is not {}", value, wanted));
}

/// Sets `target` to a number between `least` and `most`.
template <typename Target, typename T>
Status set_number(Target &target, std::string_view text, T least, T most) {
    const auto value = number<T>(text, least, most);
    if (!value) {
        return not_one(text, fmt::format("a number from {} to {}", least, most));
    }
    target = static_cast<Target>(*value);
    return {};
}

Status set_switch(bool &target, std::string_view text) {
    const std::string_view on[] = {"on", "1", "true", "yes"};
    const std::string_view off[] = {"off", "0", "false", "no"};
    const bool is_on = std::find(std::begin(on), std::end(on), text) != std::end(on);
    if (!is_on && std::find(std::begin(off), std::end(off), text) == std::end(off)) {
        return not_one(text, "on or off");
    }
    target = is_on;
    return {};
}

/// Sets `target` to what stands beside `text` in `choices`.
template <typename T, size_t N>
Status set_choice(T &target, std::string_view text,
                  const std::array<std::pair<std::string_view, T>, N> &choices) {
    std::string names;
    for (const auto &[name, value] : choices) {
        if (name == text) {
            target = value;
            return {};
        }
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return not_one(text, "one of " + names);
}

constexpr uint64_t kMostMebibytes = uint64_t{1} << 30U; // a PiB: more cannot be meant

Status set_mebibytes(std::optional<uint64_t> &target, std::string_view text) {
    const auto value = number<uint64_t>(text, 1, kMostMebibytes);
    if (!value) {
        return not_one(text, "a whole number of MiB above 0");
    }
    target = *value << 20U;
    return {};
}

Status set_mode(PlanRequest &request, std::string_view text) {
    if (text == "auto") {
        request.model.stream = StreamMode::Auto;
        return {};
    }
    bool stream = false;
    if (auto set = set_switch(stream, text); !set) {
        return not_one(text, "auto, on or off");
    }
    request.model.stream = stream ? StreamMode::Force : StreamMode::Never;
    return {};
}

Status set_cache(PlanRequest &request, std::string_view text) {
    if (text == "auto") {
        request.model.cache_bytes.reset();
        return {};
    }
    return set_mebibytes(request.model.cache_bytes, text)
               ? Status{}
               : not_one(text, "'auto' or a number of MiB above 0");
}

Status set_policy(PlanRequest &request, std::string_view text) {
    const auto policy = options::policy_named(text);
    if (!policy) {
        return not_one(text, "a cache policy: next-use, lru or lfu");
    }
    request.model.cache_policy = *policy;
    return {};
}

Status set_dense(PlanRequest &request, std::string_view text) {
    return set_choice(
        request.model.dense_weights, text,
        std::array<std::pair<std::string_view, DenseWeights>, 5>{{{"anon", DenseWeights::Anon},
                                                                  {"mmap", DenseWeights::Mmap},
                                                                  {"warm", DenseWeights::Warm},
                                                                  {"locked", DenseWeights::Locked},
                                                                  {"ahwb", DenseWeights::Ahwb}}});
}

Status set_rows(PlanRequest &request, std::string_view text) {
    request.rows_given = true;
    return set_switch(request.model.row_stream, text);
}

Status set_row_window(PlanRequest &request, std::string_view text) {
    double mebibytes = 0;
    constexpr double kSlab = 1.0 / 64;
    constexpr double kMost = 1 << 24;
    if (!set_number(mebibytes, text, kSlab, kMost)) {
        return not_one(text, "a number of MiB that holds at least one slab of 16 KiB");
    }
    request.model.row_window_bytes = static_cast<uint64_t>(mebibytes * (1U << 20U));
    return {};
}

Status set_lookahead(PlanRequest &request, std::string_view text) {
    if (text == "auto") {
        request.model.lookahead.reset();
        return {};
    }
    const auto experts = text == "off" ? std::optional(0U) : number<uint32_t>(text, 0, 1024);
    if (!experts) {
        return not_one(text, "auto, off or a number up to 1024");
    }
    request.model.lookahead = experts;
    return {};
}

Status set_engine(PlanRequest &request, std::string_view text) {
    return set_choice(
        request.model.io_engine, text,
        std::array<std::pair<std::string_view, IoEngine>, 3>{
            {{"auto", IoEngine::Auto}, {"uring", IoEngine::Uring}, {"threads", IoEngine::Threads}}});
}

Status set_hot_set(PlanRequest &request, std::string_view text) {
    bool on = true;
    auto set = set_switch(on, text);
    request.model.hot_set_folder = on ? platform::user_cache_directory() : std::string();
    return set;
}

constexpr StreamOption kOptions[] = {
    {"ram-mb", "MiB", "Ceiling on all the memory that the process takes (default: what is free now)", false,
     [](PlanRequest &r, std::string_view v) { return set_mebibytes(r.ram_bytes, v); }},
    {"moe-stream", "auto|on|off", "Stream experts from storage, or hold the whole model in memory", false,
     set_mode},
    {"cache-mb", "MiB|auto", "Expert cache; auto: what memory allows", false, set_cache},
    {"cache-policy", "next-use|lru|lfu", "How a full cache chooses the experts it drops", false, set_policy},
    {"dense-weights", "anon|mmap|warm|locked|ahwb",
     "How weights that every token needs are held while streaming", false, set_dense},
    {"row-stream", "", "Read only the rows that are gathered of weights never multiplied", false, set_rows},
    {"row-stream-mb", "MiB", "How much of such rows stays in memory", false, set_row_window},
    {"lookahead", "auto|off|N", "Guess so many of the next layer's experts and read them ahead", false,
     set_lookahead},
    {"io-engine", "auto|uring|threads", "What reads experts and rows", false, set_engine},
    {"io-depth", "N", "Reads of experts in flight with io_uring (default: the run finds out)", false,
     [](PlanRequest &r, std::string_view v) { return set_number(r.model.io_depth, v, 1, 1024); }},
    {"io-threads", "N", "Threads that read experts, instead of io_uring (default: the run finds out)", false,
     [](PlanRequest &r, std::string_view v) { return set_number(r.model.io_threads, v, 1, 64); }},
    {"direct", "", "Read past the page cache where the file system can", false,
     [](PlanRequest &r, std::string_view v) { return set_switch(r.model.direct, v); }},
    {"hot-set", "", "Begin with the experts that the last run held, and keep them for the next", false,
     set_hot_set},
    {"n-expert-used", "N", "Experts that a token uses in each layer, instead of the model's number", true,
     [](PlanRequest &r, std::string_view v) { return set_number(r.model.lossy.n_expert_used, v, 1, 1024); }},
    {"drop-cold", "SHARE",
     "Leave out experts not in the cache that weigh less than this share of an even one", true,
     [](PlanRequest &r, std::string_view v) {
         return set_number(r.model.lossy.drop_cold, v, 0.0F, 1024.0F);
     }},
    {"substitute", "SHARE",
     "Use cached experts in the place of missing ones whose router score is higher by at most this share of "
     "the scores' range",
     true,
     [](PlanRequest &r, std::string_view v) { return set_number(r.model.lossy.substitute, v, 0.0F, 1.0F); }},
};

constexpr std::string_view kPrefix = "SLUICE_";

const StreamOption *option_of_variable(std::string_view variable) {
    const auto found =
        std::find_if(std::begin(kOptions), std::end(kOptions),
                     [&](const StreamOption &option) { return variable_of(option) == variable; });
    return found == std::end(kOptions) ? nullptr : found;
}

} // namespace

std::span<const StreamOption> stream_options() {
    return kOptions;
}

Status set_stream_option(PlanRequest &request, std::string_view name, std::string_view value) {
    const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                    [name](const StreamOption &option) { return option.name == name; });
    if (found == std::end(kOptions)) {
        return fail(ErrorCode::InvalidArgument, fmt::format("there is no option '{}'", name));
    }
    PlanRequest changed = request;
    if (auto set = found->set(changed, value); !set) {
        return fail(set.error().with_context(std::string(name)));
    }
    request = std::move(changed);
    return {};
}

std::string variable_of(const StreamOption &option) {
    std::string variable(kPrefix);
    for (const char letter : option.name) {
        variable +=
            letter == '-' ? '_' : static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 32 : letter);
    }
    return variable;
}

Status read_environment(PlanRequest &request, std::span<const std::string_view> others) {
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        const std::string_view variable = text.substr(0, equals);
        if (!variable.starts_with(kPrefix) || equals == std::string_view::npos ||
            std::find(others.begin(), others.end(), variable) != others.end()) {
            continue;
        }
        const StreamOption *option = option_of_variable(variable);
        if (option == nullptr) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{} is no variable that Sluice knows", variable));
        }
        if (auto set = set_stream_option(request, option->name, text.substr(equals + 1)); !set) {
            return fail(set.error().with_context(std::string(variable)));
        }
    }
    return {};
}

} // namespace sluice::options
