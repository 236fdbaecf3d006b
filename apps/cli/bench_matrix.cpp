#include "bench_matrix.h"

#include "run_flags.h"

#include <algorithm>

namespace sluice::cli {

namespace {

/// As the command line of the setting alone, so that what a value may be is said in one place only.
void check(const BenchSetting &setting) {
    CLI::App alone;
    RunFlags flags;
    add_plan_flags(alone, flags);
    std::vector<std::string> arguments(setting.arguments.rbegin(), setting.arguments.rend());
    alone.parse(arguments);
}

} // namespace

std::string BenchSetting::line() const {
    std::string text;
    for (const std::string &argument : arguments) {
        text += (text.empty() ? "" : " ") + argument;
    }
    return text.empty() ? "defaults" : text;
}

void BenchMatrix::add_flags(CLI::App &command) {
    CLI::App pattern;
    RunFlags ignored;
    add_plan_flags(pattern, ignored);
    for (const CLI::Option *option : pattern.get_options()) {
        const std::string names = option->get_name(false, true);
        if (option == pattern.get_help_ptr()) {
            continue;
        }
        Flag &flag = flags_.emplace_back();
        flag.name = option->get_name();
        flag.takes_value = option->get_items_expected_max() > 0;
        if (flag.takes_value) {
            command.add_option(names, flag.values, option->get_description())
                ->delimiter(',')
                ->allow_extra_args(false)
                ->type_name("LIST");
        } else {
            command.add_flag(names, flag.given, option->get_description());
        }
    }
}

std::vector<BenchSetting> BenchMatrix::settings() const {
    std::vector<BenchSetting> settings(1);
    for (const Flag &flag : flags_) {
        if (!flag.takes_value && flag.given) {
            for (BenchSetting &setting : settings) {
                setting.arguments.push_back(flag.name);
            }
        }
        if (flag.values.empty()) {
            continue;
        }
        std::vector<BenchSetting> combined;
        for (const BenchSetting &setting : settings) {
            for (const std::string &value : flag.values) {
                BenchSetting &more = combined.emplace_back(setting);
                more.arguments.insert(more.arguments.end(), {flag.name, value});
                if (flag.values.size() > 1) {
                    more.varied.emplace_back(flag.name.substr(2), value);
                }
            }
        }
        settings = std::move(combined);
    }
    std::for_each(settings.begin(), settings.end(), check);
    return settings;
}

} // namespace sluice::cli
