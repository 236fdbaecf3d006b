// sluice run: a prompt in, text out.

#include "command.h"
#include "embedded_model.h"
#include "output.h"
#include "terminal.h"

#include "sluice/model.h"
#include "sluice/session.h"
#include "telemetry/summary.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice::cli {

namespace {

/// The flags of `sluice run`, as given.
struct RunFlags {
    std::optional<std::string> model;
    std::optional<std::string> prompt;
    std::optional<std::string> prompt_file;
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
    DenseWeights dense_weights = DenseWeights::Anon;
    bool row_stream = false;
    double row_stream_mb = 64;
    int io_threads = 4;
    bool no_direct = false;
    bool no_repack = false;
};

std::string check_finite(const std::string &text) {
    return std::isfinite(std::strtod(text.c_str(), nullptr)) ? "" : "'" + text + "' is not a finite number";
}

std::string check_cache(const std::string &text) {
    const bool number = !text.empty() && text.size() <= 8 && // more digits are more than memory can be
                        text.find_first_not_of("0123456789") == std::string::npos;
    return text == "auto" || (number && std::stoul(text) > 0)
               ? ""
               : "'" + text + "' is neither a number of MiB above 0 nor 'auto'";
}

std::string check_row_window(const std::string &text) {
    constexpr double kMostMebibytes = 1 << 24; // 16 TiB: more cannot be meant
    char *end = nullptr;
    const double mebibytes = std::strtod(text.c_str(), &end);
    const bool number = !text.empty() && *end == '\0' && mebibytes <= kMostMebibytes;
    return number && mebibytes * 64 >= 1 // a slab is a 64th of a MiB
               ? ""
               : "'" + text + "' is not a number of MiB that holds at least one slab of 16 KiB";
}

void add_sampling_flags(CLI::App &command, RunFlags &flags) {
    command.add_option("--temp", flags.sampling.temperature, "Temperature; 0: greedy")
        ->check(check_finite)
        ->capture_default_str();
    command.add_option("--top-k", flags.sampling.top_k, "Sample from the k likeliest; 0: all")
        ->capture_default_str();
    command.add_option("--top-p", flags.sampling.top_p, "Sample from this much probability; 1: all")
        ->check(check_finite)
        ->capture_default_str();
    command
        .add_option("--min-p", flags.sampling.min_p, "Least probability relative to the likeliest; 0: any")
        ->check(check_finite)
        ->capture_default_str();
    command
        .add_option("--repeat-penalty", flags.repeat_penalty,
                    "Penalty on repeated tokens (default: 1.1, in a chat 1.0)")
        ->check(check_finite)
        ->check(CLI::PositiveNumber);
    command.add_option("--repeat-last-n", flags.sampling.repeat_last_n, "Tokens the penalty looks back on")
        ->capture_default_str();
    command.add_option("-s,--seed", flags.sampling.seed, "Seed of the sampler (default: random)");
}

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
        ->check(CLI::Range(0, 512))
        ->capture_default_str();
    command
        .add_option("--ubatch-size", flags.session.ubatch_tokens,
                    "Tokens computed together while prefilling (-ub)")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    add_sampling_flags(command, flags);
    CLI::Option *chat =
        command.add_flag("--chat", flags.chat, "Apply the model's chat template (default where it has one)");
    command.add_flag("--raw", flags.raw, "Continue the prompt as it is")->excludes(chat);
    CLI::Option *stream =
        command.add_flag("--moe-stream", flags.moe_stream, "Stream experts from storage, whatever fits");
    command.add_flag("--no-moe-stream", flags.no_moe_stream, "Hold the whole model in memory")
        ->excludes(stream);
    command
        .add_option("--cache-mb", flags.cache_mb, "Expert cache in MiB, or 'auto': what free memory allows")
        ->check(check_cache)
        ->capture_default_str();
    const std::map<std::string, DenseWeights> dense_modes{{"anon", DenseWeights::Anon},
                                                          {"mmap", DenseWeights::Mmap},
                                                          {"warm", DenseWeights::Warm},
                                                          {"locked", DenseWeights::Locked},
                                                          {"ahwb", DenseWeights::Ahwb}};
    command
        .add_option("--dense-weights", flags.dense_weights,
                    "How weights that every token needs are held while streaming: anon, mmap, warm, locked, "
                    "ahwb (Android)")
        ->transform(CLI::CheckedTransformer(dense_modes))
        ->default_str("anon");
    CLI::Option *rows =
        command
            .add_flag("--row-stream", flags.row_stream,
                      "With --moe-stream: read only the rows that are gathered of weights never multiplied")
            ->needs(stream);
    command.add_option("--row-stream-mb", flags.row_stream_mb, "MiB of such rows to keep in memory")
        ->check(check_row_window)
        ->capture_default_str()
        ->needs(stream)
        ->needs(rows);
    command.add_option("--io-threads", flags.io_threads, "Threads that read experts")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    command.add_flag("--no-direct", flags.no_direct, "Read through the page cache");
    command.add_flag("--no-repack", flags.no_repack, "Keep dense weights in the file's layout");
}

ModelOptions model_options(const RunFlags &flags, ProgressLine &progress, const InterruptGuard &interrupt) {
    ModelOptions options;
    options.path = flags.model.value_or("");
    options.stream = flags.moe_stream      ? StreamMode::Force
                     : flags.no_moe_stream ? StreamMode::Never
                                           : StreamMode::Auto;
    if (flags.cache_mb != "auto") {
        options.cache_bytes = std::stoull(flags.cache_mb) << 20U;
    }
    options.dense_weights = flags.dense_weights;
    options.row_stream = flags.row_stream;
    options.row_window_bytes = static_cast<uint64_t>(flags.row_stream_mb * (1U << 20U));
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
    const std::unique_ptr<std::FILE, decltype([](std::FILE *file) { std::fclose(file); })> file(
        std::fopen(path.c_str(), "rb"));
    if (!file) {
        return fail(ErrorCode::NotFound, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    }
    std::string text;
    char part[4096];
    while (const size_t count = std::fread(part, 1, sizeof(part), file.get())) {
        text.append(part, count);
    }
    if (std::ferror(file.get()) != 0) {
        return fail(ErrorCode::Io, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
    return text;
}

/// One run of the command: loaded model, session, and where text goes.
class Run {
public:
    explicit Run(RunFlags flags) : flags_(std::move(flags)) {}
    ~Run() { interrupt_.watch(nullptr); } // the session goes first
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    Status execute() {
        if (auto ready = prepare(); !ready) {
            return ready;
        }
        auto status = flags_.prompt ? answer_once() : converse();
        if (session_->stats().prompt_tokens > 0) {
            print_summary();
        }
        return status;
    }

private:
    Status prepare() {
        if (auto ready = find_prompt(); !ready) {
            return ready;
        }
        if (!flags_.model) {
            const auto embedded = embedded_model_path();
            if (!embedded) {
                return fail(ErrorCode::NotFound,
                            "the embedded model is not where it was installed; name one with -m");
            }
            flags_.model = *embedded;
            if (!flags_.prompt) {
                flags_.prompt = kStoryPrompt;
            }
        }
        auto model = Model::load(model_options(flags_, progress_, interrupt_));
        progress_.clear();
        if (!model) {
            return fail(model.error());
        }
        model_.emplace(std::move(*model));
        return start_session();
    }

    Status find_prompt() {
        if (flags_.prompt_file) {
            auto text = read_file(*flags_.prompt_file);
            if (!text) {
                return fail(text.error());
            }
            if (text->ends_with('\n')) {
                text->pop_back(); // editors end the last line, prompts seldom mean to: as llama.cpp does
            }
            flags_.prompt = std::move(*text);
        }
        if (flags_.prompt && flags_.prompt->empty()) {
            return fail(ErrorCode::InvalidArgument,
                        flags_.prompt_file ? fmt::format("the prompt in {} is empty", *flags_.prompt_file)
                                           : "the prompt is empty");
        }
        return {};
    }

    Status start_session() {
        chat_ = flags_.chat || (!flags_.raw && model_->has_chat_template());
        if (flags_.chat && !model_->has_chat_template()) {
            return fail(ErrorCode::Unsupported,
                        fmt::format("{} has no chat template, so --chat is not possible", *flags_.model));
        }
        if (!chat_ && !flags_.prompt) {
            return fail(ErrorCode::InvalidArgument, "there is no prompt; give one with -p or -f");
        }
        std::fprintf(stderr, "%s\n", telemetry::mode_line(model_->info()).c_str());
        auto session = Session::create(*model_, flags_.session);
        if (!session) {
            return fail(session.error());
        }
        session_.emplace(std::move(*session));
        if (!model_->info().dense_note.empty()) {
            std::fprintf(stderr, "sluice: %s\n", model_->info().dense_note.c_str());
        }
        if (flags_.row_stream) {
            for (const std::string &line : telemetry::row_table_lines(model_->row_tables())) {
                std::fprintf(stderr, "%s\n", line.c_str());
            }
        }
        const unsigned cores = std::thread::hardware_concurrency();
        if (cores > 0 && session_->threads() > static_cast<int>(cores)) {
            std::fprintf(stderr,
                         "sluice: %d compute threads on %u cores wait for each other spinning; fewer are "
                         "faster\n",
                         session_->threads(), cores);
        }
        interrupt_.watch(&*session_);
        flags_.sampling.repeat_penalty = flags_.repeat_penalty.value_or(chat_ ? 1.0F : 1.1F);
        limit_ = flags_.predict.value_or(chat_ ? -1 : 256);
        return {};
    }

    Status answer_once() {
        const auto text = chat_ ? format_turn(*flags_.prompt) : Result<std::string>(*flags_.prompt);
        if (!text) {
            return fail(text.error());
        }
        const auto reason = generate(*text, chat_ ? "" : *flags_.prompt);
        if (!reason) {
            return fail(reason.error());
        }
        if (*reason == StopReason::Cancelled) {
            return fail(ErrorCode::Cancelled, "interrupted: the answer is not whole");
        }
        note_full_context(*reason);
        return {};
    }

    /// Turns from standard input until it ends; an interrupt ends the answer, not the conversation.
    Status converse() {
        std::string line;
        for (;;) {
            if (stdin_is_terminal()) {
                std::fputs("> ", stderr);
            }
            if (!std::getline(std::cin, line)) {
                return {};
            }
            if (line.empty()) {
                continue;
            }
            auto text = format_turn(line);
            if (!text) {
                return fail(text.error());
            }
            session_->reset();
            const auto reason = generate(*text, "");
            if (!reason) {
                return fail(reason.error());
            }
            note_full_context(*reason);
            interrupt_.acknowledge();
            messages_.push_back({"assistant", answer_});
        }
    }

    void note_full_context(StopReason reason) {
        if (reason == StopReason::ContextFull) {
            std::fprintf(stderr, "sluice: the text ends because the context of %u tokens is full\n",
                         session_->context_tokens());
        }
    }

    Result<std::string> format_turn(const std::string &text) {
        if (messages_.empty() && !flags_.system_prompt.empty()) {
            messages_.push_back({"system", flags_.system_prompt});
        }
        messages_.push_back({"user", text});
        return session_->format_chat(messages_);
    }

    /// Answers `text` on standard output. `lead` comes before the first piece and not earlier: what fails
    /// before there is an answer leaves no output.
    Result<StopReason> generate(const std::string &text, const std::string &lead) {
        // Splitting megabytes into tokens takes minutes that Ctrl-C cannot end; hardly a token has so many
        // bytes.
        constexpr size_t kMostBytesPerToken = 256;
        if (text.size() > kMostBytesPerToken * session_->context_tokens()) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("a prompt of {} bytes cannot fit the context of {} tokens", text.size(),
                                    session_->context_tokens()));
        }
        auto tokens = session_->tokenize(text, true, chat_);
        if (!tokens) {
            return fail(tokens.error());
        }
        answer_.clear();
        const auto write = [&](std::string_view piece) {
            progress_.clear();
            if (!output_.write(answer_.empty() ? lead : "") || !output_.write(piece)) {
                session_->cancel(); // nobody will see the rest
            }
            answer_ += piece;
        };
        auto reason =
            session_->generate(*tokens, limit_, flags_.sampling, write, [this](size_t done, size_t all) {
                progress_.show("prefill", static_cast<double>(done) / static_cast<double>(all));
                if (interrupt_.interrupted()) {
                    session_->cancel(); // pressed before there was anything to cancel
                }
            });
        progress_.clear();
        if (reason && answer_.empty()) {
            output_.write(lead);
        }
        if (reason || !answer_.empty()) {
            output_.write("\n");
        }
        if (auto written = output_.status(); !written) {
            return fail(written.error());
        }
        return reason;
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
    TextOutput output_;
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
