// The sluice command.

#include "command.h"
#include "output.h"
#include "server_commands.h"
#include "version.h"

#include "ggml.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::cli {

int report(const Error &error) {
    std::fprintf(stderr, "sluice: %s\n", error.message.c_str());
    return error.code == ErrorCode::InvalidArgument ? kUsage : kFailed;
}

namespace {

/// llama.cpp has one-dash flags of two letters, which CLI11 would read as two flags.
std::vector<std::string> arguments_of(int argc, char **argv) {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) { // CLI11 takes a vector from the back
        const std::string argument = argv[i];
        arguments.push_back(argument == "-ub"    ? "--ubatch-size"
                            : argument == "-sys" ? "--system-prompt"
                                                 : argument);
    }
    return arguments;
}

/// What there was once, and what does its work now; empty for anything else.
std::string what_became_of(const std::string &word) {
    if (word == "probe") {
        return "the command 'probe' is gone: a run finds out by itself how to read";
    }
    return word.find("--repack-experts") == std::string::npos
               ? ""
               : "--repack-experts is gone: where every expert stays in memory, experts are repacked by "
                 "themselves";
}

/// For `sluice --help`: commands that read their own options.
void list_server_commands(CLI::App &app) {
    app.add_subcommand("serve",
                       "llama.cpp's server, streamed: OpenAI's and Anthropic's APIs, a page to chat");
    app.add_subcommand("chat", "llama.cpp's client for conversations, streamed");
}

int run(int argc, char **argv) {
    if (argc > 1) {
        if (const auto code = run_server_command(argv[1], {argv + 2, argv + argc})) {
            return *code;
        }
    }
    CLI::App app(
        "Runs Mixture-of-Experts language models larger than memory, by streaming experts from storage.");
    app.name("sluice");
    app.set_version_flag("--version", version_text);
    app.require_subcommand(1);
    int exit_code = kOk;
    add_run_command(app, exit_code);
    list_server_commands(app);
    add_bench_command(app, exit_code);
    add_bench_run_command(app, exit_code);
    add_inspect_command(app, exit_code);
    add_make_model_command(app, exit_code);
    add_perplexity_command(app, exit_code);
    add_replay_command(app, exit_code);
    add_report_command(app, exit_code);
    add_routes_command(app, exit_code);
    add_flag_pages_command(app, exit_code);
    const auto asked_for = [&](const CLI::App *command) { return command->check_name(argv[1]); };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(asked_for).empty()) {
        const std::string gone = what_became_of(argv[1]);
        return report(
            {ErrorCode::InvalidArgument,
             gone.empty() ? std::string("there is no command '") + argv[1] + "' (see sluice --help)" : gone});
    }
    try {
        app.parse(arguments_of(argc, argv));
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) { // --help and --version
            TextOutput output;
            std::ostringstream text;
            app.exit(error, text);
            output.write(text.str());
            const Status written = output.status();
            return written ? kOk : report(written.error());
        }
        if (const std::string gone = what_became_of(error.what()); !gone.empty()) {
            return report({ErrorCode::InvalidArgument, gone});
        }
        std::fprintf(stderr, "sluice: %s (see sluice --help)\n", error.what());
        return kUsage;
    }
    return exit_code;
}

/// llama.cpp gives up on what it takes for impossible: some damaged headers, memory refused to it. A sentence
/// and an exit code say more than its backtrace and a core file.
[[noreturn]] void give_up(const char *message) {
    std::fprintf(stderr, "sluice: llama.cpp cannot go on: %s\n", message);
    std::fflush(nullptr);
    std::_Exit(kFailed);
}

} // namespace

} // namespace sluice::cli

int main(int argc, char **argv) {
    sluice::cli::prepare_standard_streams();
    ggml_set_abort_callback(sluice::cli::give_up);
    try {
        return sluice::cli::run(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "sluice: %s\n", error.what());
        return sluice::cli::kFailed;
    }
}
