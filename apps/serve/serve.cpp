#include "serve.h"

#include "arguments.h"
#include "flash_routes.h"
#include "request_guard.h"
#include "server_plan.h"

#include "command.h"
#include "embedded_model.h"
#include "output.h"
#include "telemetry/plan_text.h"

#include "cli-context.h"
#include "log.h"
#include "server-stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <unistd.h>

int llama_server(common_params &params, int argc, char **argv); // tools/server/server.cpp; in no header

namespace sluice::serve {

namespace {

using cli::ExitCode;

/// What a process must have before llama.cpp's options are read.
void begin_process() {
    std::setlocale(LC_NUMERIC, "C");
    std::signal(SIGPIPE, SIG_IGN); // a client that went away
    common_init();
}

/// `words` as main() gets them.
class ArgumentVector {
public:
    explicit ArgumentVector(std::vector<std::string> words) : words_(std::move(words)) {
        for (std::string &word : words_) {
            pointers_.push_back(word.data());
        }
        pointers_.push_back(nullptr);
    }
    [[nodiscard]] int count() const { return static_cast<int>(words_.size()); }
    char **data() { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<char *> pointers_;
};

bool names_a_model(const Arguments &arguments) {
    return arguments.given({"-m", "-mu", "-hf", "-dr"}) || arguments.given_like("--models-");
}

Result<std::string> embedded_model() {
    auto path = cli::embedded_model_path();
    if (!path) {
        return fail(ErrorCode::NotFound,
                    "the embedded model is not where it was installed; name one with -m");
    }
    return *std::move(path);
}

/// Downloads what `params` name by repository or address, so that there are files to plan for.
Status fetch_models(common_params &params, common_models_handler &handler) {
    try {
        const std::string name = params.model.get_name();
        common_models_handler_apply(handler, params);
        if (params.model.path.empty()) {
            return fail(
                ErrorCode::NotFound,
                fmt::format("cannot fetch {}: it was not found there, or has no GGUF file of that kind",
                            name));
        }
        if (params.model_alias.empty() && !name.empty()) {
            params.model_alias.insert(name); // as llama.cpp's server does, which will not see the repository
        }
        params.model.hf_repo.clear();
        params.model.docker_repo.clear();
        params.model.url.clear();
    } catch (const std::exception &error) {
        return fail(ErrorCode::Io, fmt::format("cannot fetch the model: {}", error.what()));
    }
    return {};
}

bool is_loopback(const std::string &host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.") || host.ends_with(".sock");
}

/// What is not given is safe, and what is given and is not safe is refused.
Status make_safe(const Arguments &arguments, common_params &params) {
    for (const std::string &host : params.hostnames) {
        if (!is_loopback(host) && params.api_keys.empty()) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--host {} lets other machines in, which needs --api-key", host));
        }
    }
    if (!params.cors_origins_explicit) {
        params.cors_origins = "localhost";
    }
    const bool router = params.model.path.empty();
    if (!arguments.given({"--timeout"}) && !router) { // a router waits for its models with the same number
        constexpr int kSecondsToRead = 60;
        constexpr int kSecondsToWrite = 600;
        params.timeout_read = kSecondsToRead;
        params.timeout_write = kSecondsToWrite;
    }
    return {};
}

/// What the flash panel shows of how the server was started.
void tell_flash(const RunPlan &plan, const Arguments &arguments) {
    flash::StartFacts facts{.version = SLUICE_VERSION,
                            .arguments = {"sluice", "serve"},
                            .session = plan.session,
                            .ceiling_bytes = plan.budget_bytes,
                            .ceiling_source = plan.budget_source,
                            .choices = plan.choices};
    facts.arguments.insert(facts.arguments.end(), arguments.words.begin(), arguments.words.end());
    set_flash_facts(std::move(facts));
}

/// A router holds no model itself.
void tell_flash_of_router(const Arguments &arguments) {
    flash::StartFacts facts;
    facts.version = SLUICE_VERSION;
    facts.router = true;
    facts.arguments = {"sluice", "serve"};
    facts.arguments.insert(facts.arguments.end(), arguments.words.begin(), arguments.words.end());
    set_flash_facts(std::move(facts));
}

/// Shows the plan and puts it in force. Empty: go on; else the exit code.
std::optional<int> plan_and_follow(const Arguments &arguments, common_params &params, bool long_lived) {
    if (!arguments.given({"--cache-ram"})) {
        params.cache_ram_mib = 0; // memory that no plan counts on; experts use it better
    }
    if (params.n_parallel < 0) { // llama.cpp's server decides the same, but after the plan
        params.n_parallel = 4;
        params.kv_unified = true;
    }
    const auto plan = plan_server(arguments, params, long_lived);
    common_init(); // planning took llama.cpp's log
    if (!plan) {
        return cli::report(plan.error());
    }
    if (arguments.plan) {
        cli::TextOutput output;
        for (const auto &lines : {telemetry::plan_table(*plan), telemetry::plan_choices(*plan)}) {
            for (const std::string &line : lines) {
                output.write(line + '\n');
            }
        }
        const Status written = output.status();
        return written ? ExitCode::kOk : cli::report(written.error());
    }
    for (const std::string &warning : plan->warnings) {
        std::fprintf(stderr, "sluice: %s\n", warning.c_str());
    }
    tell_flash(*plan, arguments);
    const Status followed = follow_plan(*plan, arguments, params);
    return followed ? std::nullopt : std::optional(cli::report(followed.error()));
}

/// A router starts a process of this program for each model, as `sluice serve` with llama.cpp's options; ours
/// go by the environment.
int run_router(const Arguments &arguments, common_params &params, ArgumentVector &words) {
    setenv("LLAMA_APP_CMD", "serve", 1);
    for (const auto &[variable, value] : arguments.ours) {
        setenv(variable.c_str(), value.c_str(), 1);
    }
    if (arguments.plan) {
        return cli::report({ErrorCode::InvalidArgument, "--plan needs a model (-m or -hf)"});
    }
    tell_flash_of_router(arguments);
    return llama_server(params, words.count(), words.data());
}

int run_server(const Arguments &arguments, common_params &params, ArgumentVector &words) {
    common_models_handler handler;
    try {
        handler = common_models_handler_init(params, LLAMA_EXAMPLE_SERVER);
    } catch (const std::exception &error) {
        return cli::report({ErrorCode::Io, fmt::format("cannot look the model up: {}", error.what())});
    }
    const bool downloads_only = std::getenv("LLAMA_SERVER_CHILD_MODE") != nullptr; // a router's child
    if (params.model.empty() && params.model.url.empty()) {
        return run_router(arguments, params, words);
    }
    if (common_models_handler_is_preset_repo(handler)) {
        return run_router(arguments, params, words);
    }
    if (downloads_only) {
        return llama_server(params, words.count(), words.data());
    }
    if (auto fetched = fetch_models(params, handler); !fetched) {
        return cli::report(fetched.error());
    }
    if (auto code = plan_and_follow(arguments, params, true)) {
        return *code;
    }
    return llama_server(params, words.count(), words.data());
}

/// llama.cpp reads the prompt from a file with -f; here "-" is standard input.
Status read_piped_prompt(std::vector<std::string> &words) {
    for (size_t i = 0; i + 1 < words.size(); ++i) {
        if ((words[i] == "-f" || words[i] == "--file") && words[i + 1] == "-") {
            words[i] = "-p";
            words[i + 1] = std::string(std::istreambuf_iterator<char>(std::cin), {});
            if (words[i + 1].ends_with('\n')) {
                words[i + 1].pop_back();
            }
            if (words[i + 1].empty()) {
                return fail(ErrorCode::InvalidArgument, "the prompt on standard input is empty");
            }
        }
    }
    return {};
}

std::atomic<unsigned> idle_since{
    UINT_MAX}; ///< requests_begun() at the last interrupt that found none running
volatile std::sig_atomic_t idle_interrupt_is_harmless =
    0; ///< the client reads from a terminal, and has a server

/// An interrupt ends the answer that is being written. Where none is, the client's reading returns without a
/// line and asks anew; only a second one in a row ends the client, as a first would do without us.
extern "C" void interrupt_client(int signal) {
    if (signal == SIGINT && idle_interrupt_is_harmless != 0 && !requests_run() &&
        idle_since.exchange(requests_begun()) != requests_begun()) {
        return;
    }
    if (cli_context::interrupted().load()) {
        std::_Exit(130);
    }
    cli_context::interrupted().store(true);
}

void listen_to_interrupts() {
    struct sigaction action = {};
    action.sa_handler = interrupt_client; // no SA_RESTART: reading a line is to return
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

/// llama.cpp's client takes the end of standard input for an empty line, and asks again for ever. Where lines
/// come from a file or pipe the command that leaves it is put behind them.
Status end_input_with_exit() {
    int ends[2] = {-1, -1};
    const int input = dup(STDIN_FILENO);
    if (input < 0 || pipe(ends) != 0 || dup2(ends[0], STDIN_FILENO) < 0) {
        return fail(ErrorCode::Io, fmt::format("cannot read standard input: {}", std::strerror(errno)));
    }
    close(ends[0]);
    std::thread([input, output = ends[1]] {
        const auto write_all = [output](std::string_view text) {
            while (!text.empty()) {
                const ssize_t written = write(output, text.data(), text.size());
                if (written <= 0) {
                    return;
                }
                text.remove_prefix(static_cast<size_t>(written));
            }
        };
        char buffer[4096];
        bool line_is_open = false;
        for (ssize_t got = 0; (got = read(input, buffer, sizeof(buffer))) > 0;) {
            write_all({buffer, static_cast<size_t>(got)});
            line_is_open = buffer[got - 1] != '\n';
        }
        write_all(line_is_open ? "\n/exit\n" : "/exit\n");
        close(output);
    }).detach(); // it waits for input that may never come
    return {};
}

} // namespace

int serve(const std::vector<std::string> &words) {
    begin_process();
    server_stream_session_manager_start();
    const auto arguments = Arguments::parse("serve", words, LLAMA_EXAMPLE_SERVER);
    if (!arguments) {
        return cli::report(arguments.error());
    }
    if (arguments->help) {
        std::fputs(own_help("serve").c_str(), stdout);
    }
    ArgumentVector theirs(arguments->theirs);
    common_params params;
    if (!common_params_parse(theirs.count(), theirs.data(), params, LLAMA_EXAMPLE_SERVER)) {
        return ExitCode::kUsage;
    }
    if (params.model.empty() && params.model.url.empty() && !names_a_model(*arguments)) {
        auto path = embedded_model();
        if (!path) {
            return cli::report(path.error());
        }
        params.model.path = *path;
    }
    if (auto safe = make_safe(*arguments, params); !safe) {
        return cli::report(safe.error());
    }
    llama_backend_init();
    llama_numa_init(params.numa);
    own_signals(true);
    const int result = run_server(*arguments, params, theirs);
    common_log_flush(common_log_main());
    return result == 0 ? ExitCode::kOk : result;
}

int chat(const std::vector<std::string> &words) {
    begin_process();
    auto arguments = Arguments::parse("chat", words, LLAMA_EXAMPLE_CLI);
    if (!arguments) {
        return cli::report(arguments.error());
    }
    if (arguments->help) {
        std::fputs(own_help("chat").c_str(), stdout);
    }
    if (auto read = read_piped_prompt(arguments->theirs); !read) {
        return cli::report(read.error());
    }
    ArgumentVector theirs(arguments->theirs);
    common_params params;
    params.verbosity = LOG_LEVEL_ERROR;
    if (!names_a_model(*arguments) && !arguments->given({"--server-base"})) {
        auto path = embedded_model();
        if (!path) {
            return cli::report(path.error());
        }
        params.model.path = *path;
    }
    if (!common_params_parse(theirs.count(), theirs.data(), params, LLAMA_EXAMPLE_CLI)) {
        return ExitCode::kUsage;
    }
    if (params.server_base.empty()) {
        if (params.n_parallel < 0) {
            params.n_parallel = 1;
        }
        params.cors_origins = "localhost";
        if (auto code = plan_and_follow(*arguments, params, false)) {
            return *code;
        }
    }
    if (isatty(STDIN_FILENO) == 0) {
        if (auto ended = end_input_with_exit(); !ended) {
            return cli::report(ended.error());
        }
    } else if (params.server_base.empty()) {
        idle_interrupt_is_harmless = 1;
    }
    listen_to_interrupts();
    cli_context client(params);
    return client.init() ? client.run() : static_cast<int>(ExitCode::kFailed);
}

} // namespace sluice::serve
