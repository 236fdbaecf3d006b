#include "flag_pages.h"

#include "options/option_table.h"

#include <fmt/format.h>
#include <vector>

namespace sluice::cli {

namespace {

std::vector<const CLI::App *> commands_of(const CLI::App &app) {
    return app.get_subcommands([](const CLI::App *command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option *> flags_of(const CLI::App &command) {
    return command.get_options([](const CLI::Option *flag) {
        return !flag->get_group().empty() && (!flag->get_lnames().empty() || !flag->get_snames().empty());
    });
}

std::vector<const CLI::Option *> positionals_of(const CLI::App &command) {
    return command.get_options(
        [](const CLI::Option *flag) { return flag->get_lnames().empty() && flag->get_snames().empty(); });
}

/// "-m", "--model": in the order in which they were defined, short ones first.
std::vector<std::string> spellings(const CLI::Option &flag) {
    std::vector<std::string> all;
    for (const std::string &name : flag.get_snames()) {
        all.push_back("-" + name);
    }
    for (const std::string &name : flag.get_lnames()) {
        all.push_back("--" + name);
    }
    return all;
}

bool takes_value(const CLI::Option &flag) {
    return flag.get_items_expected_max() > 0;
}

/// The words that it takes, if its type lists them: "TEXT:{a,b}", or with what they stand for,
/// "TEXT:{a->0,b->1}".
std::vector<std::string> words_of(const CLI::Option &flag) {
    const std::string type = flag.get_type_name();
    const size_t begin = type.find('{');
    const size_t end = type.find('}');
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
        return {};
    }
    std::vector<std::string> words = CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
    for (std::string &word : words) {
        word = word.substr(0, word.find("->"));
    }
    return words;
}

std::string joined(const std::vector<std::string> &parts, const std::string &between) {
    return CLI::detail::join(parts, between);
}

std::string replaced(const std::string &text, const std::vector<std::pair<char, std::string>> &replacements) {
    std::string out;
    for (const char letter : text) {
        std::string piece(1, letter);
        for (const auto &[from, to] : replacements) {
            piece = letter == from ? to : piece;
        }
        out += piece;
    }
    return out;
}

// -- the manual page, in the language of man(7)

std::string manual_text(const std::string &text) {
    const std::string escaped = replaced(text, {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'\n', " "}});
    return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string manual_flag(const CLI::Option &flag, const std::vector<std::string> &names) {
    std::string value = takes_value(flag) ? flag.get_type_name() : "";
    if (!flag.get_default_str().empty() && takes_value(flag)) {
        value += "=" + flag.get_default_str();
    }
    return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", manual_text(joined(names, ", ")),
                       value.empty() ? "" : " \\fI" + manual_text(value) + "\\fR",
                       manual_text(flag.get_description()));
}

std::string manual_command(const CLI::App &command) {
    std::string usage = "sluice " + command.get_name() + " [OPTIONS]";
    std::string flags;
    for (const CLI::Option *positional : positionals_of(command)) {
        usage += " " + positional->get_name();
        flags += manual_flag(*positional, {positional->get_name()});
    }
    for (const CLI::Option *flag : flags_of(command)) {
        flags += manual_flag(*flag, spellings(*flag));
    }
    return fmt::format(".SH {}\n\\fB{}\\fR\n.PP\n{}\n{}", manual_text(command.get_name()), manual_text(usage),
                       manual_text(command.get_description()), flags);
}

std::string manual_stream_options() {
    std::string text =
        ".SH OPTIONS OF THE C INTERFACE\nPrograms that stream through sluice.h set these by name.\n";
    for (const options::StreamOption &option : options::stream_options()) {
        text += fmt::format(".TP\n\\fB{}\\fR \\fI{}\\fR\n{}\n", manual_text(std::string(option.name)),
                            manual_text(std::string(option.value.empty() ? "on|off" : option.value)),
                            manual_text(std::string(option.help)));
    }
    return text;
}

// -- completions

bool takes_file(const CLI::Option &flag) {
    return takes_value(flag) && words_of(flag).empty() &&
           flag.get_type_name().find("FILE") + flag.get_type_name().find("PATH") != 2 * std::string::npos;
}

std::string bash_command(const CLI::App &command) {
    std::string values;
    std::vector<std::string> all;
    for (const CLI::Option *flag : flags_of(command)) {
        const std::vector<std::string> names = spellings(*flag);
        all.insert(all.end(), names.begin(), names.end());
        if (!words_of(*flag).empty()) {
            values += fmt::format("            {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                                  joined(names, "|"), joined(words_of(*flag), " "));
        } else if (takes_value(*flag)) {
            values += fmt::format("            {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                                  joined(names, "|"));
        }
    }
    return fmt::format("    {})\n{}        flags='{}'\n        ;;\n", command.get_name(),
                       values.empty() ? "" : "        case $before in\n" + values + "        esac\n",
                       joined(all, " "));
}

std::vector<std::string> names_of(const std::vector<const CLI::App *> &commands) {
    std::vector<std::string> names;
    for (const CLI::App *command : commands) {
        names.push_back(command->get_name());
    }
    return names;
}

std::string zsh_text(const std::string &text) {
    return replaced(text, {{'\'', "'\\''"}, {'[', "\\["}, {']', "\\]"}, {':', "\\:"}, {'\n', " "}});
}

std::string zsh_flag(const CLI::Option &flag, const std::string &spelling) {
    std::string value;
    if (takes_value(flag)) {
        const std::vector<std::string> words = words_of(flag);
        value = words.empty() ? takes_file(flag) ? ":file:_files" : ":value:"
                              : ":value:(" + joined(words, " ") + ")";
    }
    return fmt::format("            '{}[{}]{}' \\\n", spelling, zsh_text(flag.get_description()), value);
}

std::string fish_text(const std::string &text) {
    return replaced(text, {{'\\', "\\\\"}, {'\'', "\\'"}, {'\n', " "}});
}

std::string fish_flag(const CLI::App &command, const CLI::Option &flag) {
    std::string line = "complete -c sluice -n '__fish_seen_subcommand_from " + command.get_name() + "'";
    for (const std::string &name : flag.get_snames()) {
        line += " -s " + name;
    }
    for (const std::string &name : flag.get_lnames()) {
        line += " -l " + name;
    }
    if (takes_value(flag)) {
        const std::vector<std::string> words = words_of(flag);
        line += takes_file(flag) ? " -r -F" : words.empty() ? " -x" : " -x -a '" + joined(words, " ") + "'";
    }
    return line + " -d '" + fish_text(flag.get_description()) + "'\n";
}

} // namespace

std::string manual_page(const CLI::App &app) {
    std::string text =
        fmt::format(".TH SLUICE 1 \"\" \"Sluice {}\" \"User Commands\"\n.SH NAME\nsluice \\- run "
                    "Mixture\\-of\\-Experts language models larger than memory\n.SH SYNOPSIS\n\\fBsluice\\fR "
                    "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
                    SLUICE_VERSION, manual_text(app.get_description()));
    std::string sections;
    for (const CLI::App *command : commands_of(app)) {
        text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", manual_text(command->get_name()),
                            manual_text(command->get_description()));
        sections += manual_command(*command);
    }
    return text + sections + manual_stream_options() +
           ".SH EXIT STATUS\n0 if everything asked for was done, 1 if it failed, 2 if it was called "
           "wrongly.\n";
}

std::string bash_completion(const CLI::App &app) {
    std::string cases;
    for (const CLI::App *command : commands_of(app)) {
        cases += bash_command(*command);
    }
    return fmt::format(R"(# Completion of sluice for bash.
_sluice() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} flags=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _sluice sluice
)",
                       joined(names_of(commands_of(app)), " "), cases);
}

std::string zsh_completion(const CLI::App &app) {
    std::string commands;
    std::string cases;
    for (const CLI::App *command : commands_of(app)) {
        commands +=
            fmt::format("        '{}:{}'\n", command->get_name(), zsh_text(command->get_description()));
        cases += fmt::format("        {})\n        _arguments \\\n", command->get_name());
        for (const CLI::Option *flag : flags_of(*command)) {
            for (const std::string &spelling : spellings(*flag)) {
                cases += zsh_flag(*flag, spelling);
            }
        }
        cases += "            '*:file:_files'\n        ;;\n";
    }
    return fmt::format(R"(#compdef sluice
# Completion of sluice for zsh.
_sluice() {{
    local -a commands
    commands=(
{}    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
{}    esac
}}
_sluice "$@"
)",
                       commands, cases);
}

std::string fish_completion(const CLI::App &app) {
    std::string text = "# Completion of sluice for fish.\n";
    for (const CLI::App *command : commands_of(app)) {
        text += fmt::format("complete -c sluice -n __fish_use_subcommand -f -a {} -d '{}'\n",
                            command->get_name(), fish_text(command->get_description()));
        for (const CLI::Option *flag : flags_of(*command)) {
            text += fish_flag(*command, *flag);
        }
    }
    return text;
}

} // namespace sluice::cli
