#include "arguments.h"

#include "options/option_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace sluice::serve {

namespace {

constexpr std::string_view kNoOthers[] = {"SLUICE_MODEL"};

/// llama.cpp's options by each of their spellings.
class TheirOptions {
public:
    explicit TheirOptions(llama_example example)
        : options_(common_params_parser_init(params_, example, nullptr).options) {
        for (common_arg &option : options_) {
            for (const std::string &name : option.get_args()) {
                by_name_[name] = &option;
            }
        }
    }

    /// Null: llama.cpp knows none of that name. In long names it reads '_' as '-'.
    [[nodiscard]] const common_arg *find(std::string name) const {
        if (name.starts_with("--")) {
            std::replace(name.begin(), name.end(), '_', '-');
        }
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : found->second;
    }

    [[nodiscard]] const std::vector<common_arg> &all() const { return options_; }

    static size_t values_of(const common_arg &option) {
        if (option.handler_void != nullptr || option.handler_bool != nullptr) {
            return 0;
        }
        return option.handler_str_str != nullptr ? 2 : 1;
    }

private:
    common_params params_;
    std::vector<common_arg> options_;
    std::map<std::string, const common_arg *> by_name_;
};

/// One of our options as it stands on a command line.
struct OwnWord {
    const options::StreamOption *option = nullptr;
    std::optional<std::string> value; ///< empty: the next word
};

/// --moe-stream stands alone, as a switch does, and means "on"; it takes a value behind '='.
bool stands_alone(const options::StreamOption &option) {
    return option.value.empty() || option.name == "moe-stream";
}

std::optional<OwnWord> own_word(const std::string &word) {
    if (!word.starts_with("--")) {
        return std::nullopt;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    for (const options::StreamOption &option : options::stream_options()) {
        if (option.name == name) {
            if (equals != std::string::npos) {
                return OwnWord{&option, word.substr(equals + 1)};
            }
            return OwnWord{&option, stands_alone(option) ? std::optional<std::string>("on") : std::nullopt};
        }
        if (stands_alone(option) && name == "no-" + std::string(option.name)) {
            return OwnWord{&option, "off"};
        }
    }
    return std::nullopt;
}

} // namespace

Result<Arguments> Arguments::parse(const std::string &command, const std::vector<std::string> &words,
                                   llama_example example) {
    const TheirOptions known(example);
    Arguments arguments;
    arguments.words = words;
    arguments.theirs = {"sluice"};
    if (auto set = options::set_stream_option(arguments.request, "hot-set", "on"); !set) {
        return fail(set.error());
    }
    if (auto read = options::read_environment(arguments.request, kNoOthers); !read) {
        return fail(read.error());
    }
    for (const common_arg &option : known.all()) {
        if (option.has_value_from_env()) {
            const auto names = option.get_args();
            arguments.given_.insert(arguments.given_.end(), names.begin(), names.end());
        }
    }
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string &word = words[i];
        if (word == "--plan") {
            arguments.plan = true;
            continue;
        }
        const auto own = own_word(word);
        const common_arg *theirs = own ? nullptr : known.find(word);
        if (!own && theirs == nullptr) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("there is no option '{}' (see sluice {} --help)", word, command));
        }
        const size_t values = own ? (own->value ? 0 : 1) : TheirOptions::values_of(*theirs);
        if (words.size() - i - 1 < values) {
            return fail(ErrorCode::InvalidArgument, fmt::format("{} needs a value", word));
        }
        if (own) {
            const std::string value = own->value ? *own->value : words[i + 1];
            if (auto set = options::set_stream_option(arguments.request, own->option->name, value); !set) {
                return fail(set.error().code, "--" + set.error().message);
            }
            arguments.ours[options::variable_of(*own->option)] = value;
        } else {
            arguments.help |= word == "-h" || word == "--help" || word == "--usage";
            arguments.theirs.insert(arguments.theirs.end(), words.begin() + static_cast<std::ptrdiff_t>(i),
                                    words.begin() + static_cast<std::ptrdiff_t>(i + 1 + values));
            const auto names = theirs->get_args();
            arguments.given_.insert(arguments.given_.end(), names.begin(), names.end());
        }
        i += values;
    }
    return arguments;
}

bool Arguments::given(std::initializer_list<std::string_view> names) const {
    return std::any_of(names.begin(), names.end(), [this](std::string_view name) {
        return std::find(given_.begin(), given_.end(), name) != given_.end();
    });
}

bool Arguments::given_like(std::string_view beginning) const {
    return std::any_of(given_.begin(), given_.end(),
                       [beginning](const std::string &name) { return name.starts_with(beginning); });
}

std::string own_help(const std::string &command) {
    std::string text =
        fmt::format("sluice {} [options]: llama.cpp's {}, streamed\n\n----- Sluice's options -----\n\n",
                    command, command == "serve" ? "server" : "client for conversations");
    const auto line = [&text](const std::string &flag, std::string_view help) {
        text += flag.size() < 30 ? fmt::format("{:<30}  {}\n", flag, help)
                                 : fmt::format("{}\n{:<30}  {}\n", flag, "", help);
    };
    for (const options::StreamOption &option : options::stream_options()) {
        const std::string flag = option.name == "moe-stream" ? "--moe-stream, --no-moe-stream"
                                 : option.value.empty()
                                     ? fmt::format("--{}, --no-{}", option.name, option.name)
                                     : fmt::format("--{} {}", option.name, option.value);
        line(flag, (option.lossy ? "Lossy: " : "") + std::string(option.help));
    }
    line("--plan", "Print what would be done and taken, and why; do nothing");
    return text + "\n\nllama.cpp's own options:\n\n";
}

} // namespace sluice::serve
