// sluice run: a prompt in, text out.

#include "command.h"
#include "embedded_model.h"
#include "terminal.h"

#include "sluice/model.h"
#include "sluice/session.h"
#include "telemetry/summary.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

/// The flags of `sluice run`, as given.
struct RunFlags {
    std::string model;
    std::string prompt;
    std::string prompt_file;
    std::string system_prompt;
    std::optional<int> predict;
    SessionOptions session;
    SamplingOptions sampling;
    std::optional<float> repeat_penalty;
    bool chat = false;
    bool raw = false;
    bool moe_stream = false;
    bool no_moe_stream = false;
    std::string cache_mb = "auto";
    int io_threads = 4;
    bool no_direct = false;
    bool no_repack = false;
};

void add_flags(CLI::App &command, RunFlags &flags) {
    command.add_option("-m,--model", flags.model,
                       "GGUF file, or the first of several shards (default: the embedded model)");
    CLI::Option *prompt = command.add_option("-p,--prompt", flags.prompt, "The prompt");
    command.add_option("-f,--file", flags.prompt_file, "Read the prompt from this file")->excludes(prompt);
    command.add_option("--system-prompt", flags.system_prompt, "System prompt for a chat (-sys)");
    command.add_option(
        "-n,--predict,--n-predict", flags.predict,
        "Tokens to generate; -1: until the text or the context ends (default: 256, in a chat -1)");
    command
        .add_option("-c,--ctx-size", flags.session.context_tokens,
                    "Context in tokens; 0: 4096, or what the model was trained for if less")
        ->capture_default_str();
    command.add_option("-t,--threads", flags.session.threads, "Compute threads; 0: physical cores")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command
        .add_option("--ubatch-size", flags.session.ubatch_tokens,
                    "Tokens computed together while prefilling (-ub)")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    command.add_option("--temp", flags.sampling.temperature, "Temperature; 0: greedy")->capture_default_str();
    command.add_option("--top-k", flags.sampling.top_k, "Sample from the k likeliest; 0: all")
        ->capture_default_str();
    command.add_option("--top-p", flags.sampling.top_p, "Sample from this much probability; 1: all")
        ->capture_default_str();
    command
        .add_option("--min-p", flags.sampling.min_p, "Least probability relative to the likeliest; 0: any")
        ->capture_default_str();
    command.add_option("--repeat-penalty", flags.repeat_penalty,
                       "Penalty on repeated tokens (default: 1.1, in a chat 1.0)");
    command.add_option("--repeat-last-n", flags.sampling.repeat_last_n, "Tokens the penalty looks back on")
        ->capture_default_str();
    command.add_option("-s,--seed", flags.sampling.seed, "Seed of the sampler (default: random)");
    CLI::Option *chat =
        command.add_flag("--chat", flags.chat, "Apply the model's chat template (default where it has one)");
    command.add_flag("--raw", flags.raw, "Continue the prompt as it is")->excludes(chat);
    CLI::Option *stream =
        command.add_flag("--moe-stream", flags.moe_stream, "Stream experts from storage, whatever fits");
    command.add_flag("--no-moe-stream", flags.no_moe_stream, "Hold the whole model in memory")
        ->excludes(stream);
    command
        .add_option("--cache-mb", flags.cache_mb, "Expert cache in MiB, or 'auto': what free memory allows")
        ->check([](const std::string &text) {
            const bool number = !text.empty() && text.size() <= 8 &&
                                text.find_first_not_of("0123456789") == std::string::npos;
            return text == "auto" || (number && std::stoul(text) > 0)
                       ? std::string()
                       : "'" + text + "' is neither a number of MiB above 0 nor 'auto'";
        })
        ->capture_default_str();
    command.add_option("--io-threads", flags.io_threads, "Threads that read experts")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    command.add_flag("--no-direct", flags.no_direct, "Read through the page cache");
    command.add_flag("--no-repack", flags.no_repack, "Keep dense weights in the file's layout");
}

ModelOptions model_options(const RunFlags &flags, ProgressLine &progress, const InterruptGuard &interrupt) {
    ModelOptions options;
    options.path = flags.model;
    options.stream = flags.moe_stream      ? StreamMode::Force
                     : flags.no_moe_stream ? StreamMode::Never
                                           : StreamMode::Auto;
    if (flags.cache_mb != "auto") {
        options.cache_bytes = std::stoull(flags.cache_mb) << 20U;
    }
    options.io_threads = flags.io_threads;
    options.direct = !flags.no_direct;
    options.repack = !flags.no_repack;
    options.progress = [&progress, &interrupt](float done) {
        progress.show("loading", done);
        return !interrupt.interrupted();
    };
    return options;
}

Result<std::string> read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return fail(ErrorCode::NotFound, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    }
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (file.bad()) {
        return fail(ErrorCode::Io, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
    return text;
}

/// One run of the command: loaded model, session, and where text goes.
class Run {
public:
    explicit Run(RunFlags flags) : flags_(std::move(flags)) {}

    Status execute() {
        if (auto ready = prepare(); !ready) {
            return ready;
        }
        auto status = chat_ && flags_.prompt.empty() ? converse() : answer_once();
        if (session_->stats().prompt_tokens > 0) {
            print_summary();
        }
        return status;
    }

private:
    Status prepare() {
        if (flags_.model.empty()) {
            const auto embedded = embedded_model_path();
            if (!embedded) {
                return fail(ErrorCode::NotFound,
                            "the embedded model is not where it was installed; name one with -m");
            }
            flags_.model = *embedded;
            if (flags_.prompt.empty() && flags_.prompt_file.empty()) {
                flags_.prompt = kStoryPrompt;
            }
        }
        if (!flags_.prompt_file.empty()) {
            auto text = read_file(flags_.prompt_file);
            if (!text) {
                return fail(text.error());
            }
            flags_.prompt = std::move(*text);
        }
        auto model = Model::load(model_options(flags_, progress_, interrupt_));
        progress_.clear();
        if (!model) {
            return fail(model.error());
        }
        model_.emplace(std::move(*model));
        return start_session();
    }

    Status start_session() {
        chat_ = flags_.chat || (!flags_.raw && model_->has_chat_template());
        if (flags_.chat && !model_->has_chat_template()) {
            return fail(ErrorCode::Unsupported,
                        fmt::format("{} has no chat template, so --chat is not possible", flags_.model));
        }
        if (!chat_ && flags_.prompt.empty()) {
            return fail(ErrorCode::InvalidArgument, "there is no prompt; give one with -p or -f");
        }
        std::fprintf(stderr, "%s\n", telemetry::mode_line(model_->info()).c_str());
        auto session = Session::create(*model_, flags_.session);
        if (!session) {
            return fail(session.error());
        }
        session_.emplace(std::move(*session));
        interrupt_.watch(&*session_);
        flags_.sampling.repeat_penalty = flags_.repeat_penalty.value_or(chat_ ? 1.0F : 1.1F);
        limit_ = flags_.predict.value_or(chat_ ? -1 : 256);
        return {};
    }

    Status answer_once() {
        std::string text = flags_.prompt;
        if (chat_) {
            auto formatted = format_turn(flags_.prompt);
            if (!formatted) {
                return fail(formatted.error());
            }
            text = std::move(*formatted);
        } else {
            std::fputs(text.c_str(), stdout);
        }
        auto reason = generate(text);
        std::fputc('\n', stdout);
        if (!reason) {
            return fail(reason.error());
        }
        if (*reason == StopReason::Cancelled) {
            return fail(ErrorCode::Cancelled, "interrupted: the answer is not whole");
        }
        if (*reason == StopReason::ContextFull) {
            std::fprintf(stderr, "sluice: the text ends because the context of %u tokens is full\n",
                         session_->context_tokens());
        }
        return check_output();
    }

    /// Turns from standard input until it ends; an interrupt ends the answer, not the conversation.
    Status converse() {
        std::string line;
        for (;;) {
            if (stdin_is_terminal()) {
                std::fputs("> ", stderr);
            }
            if (!std::getline(std::cin, line)) {
                return check_output();
            }
            if (line.empty()) {
                continue;
            }
            auto text = format_turn(line);
            if (!text) {
                return fail(text.error());
            }
            session_->reset();
            auto reason = generate(*text);
            std::fputc('\n', stdout);
            if (!reason) {
                return fail(reason.error());
            }
            interrupt_.acknowledge();
            messages_.push_back({"assistant", answer_});
        }
    }

    Result<std::string> format_turn(const std::string &text) {
        if (messages_.empty() && !flags_.system_prompt.empty()) {
            messages_.push_back({"system", flags_.system_prompt});
        }
        messages_.push_back({"user", text});
        return session_->format_chat(messages_);
    }

    Result<StopReason> generate(const std::string &text) {
        auto tokens = session_->tokenize(text, true, chat_);
        if (!tokens) {
            return fail(tokens.error());
        }
        answer_.clear();
        auto reason = session_->generate(
            *tokens, limit_, flags_.sampling,
            [this](std::string_view piece) {
                progress_.clear();
                answer_ += piece;
                std::fwrite(piece.data(), 1, piece.size(), stdout);
                std::fflush(stdout);
            },
            [this](size_t done, size_t all) {
                progress_.show("prefill", static_cast<double>(done) / static_cast<double>(all));
            });
        progress_.clear();
        return reason;
    }

    /// A full disk or a closed pipe shows only now.
    static Status check_output() {
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            return fail(ErrorCode::Io, fmt::format("cannot write the text: {}", std::strerror(errno)));
        }
        return {};
    }

    void print_summary() {
        std::fputc('\n', stderr);
        for (const std::string &line : telemetry::summary_lines(model_->info(), session_->stats())) {
            std::fprintf(stderr, "%s\n", line.c_str());
        }
    }

    RunFlags flags_;
    ProgressLine progress_;
    InterruptGuard interrupt_;
    std::optional<Model> model_;
    std::optional<Session> session_;
    std::vector<ChatMessage> messages_;
    std::string answer_;
    bool chat_ = false;
    int limit_ = -1;
};

} // namespace

void add_run_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand("run", "Generate text from a prompt");
    auto flags = std::make_shared<RunFlags>();
    add_flags(*command, *flags);
    command->callback([flags, &exit_code] {
        const Status status = Run(*flags).execute();
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
