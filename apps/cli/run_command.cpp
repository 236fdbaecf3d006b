// sluice run: a prompt in, text out.

#include "command.h"
#include "embedded_model.h"
#include "open_trace.h"
#include "output.h"
#include "run_flags.h"
#include "run_telemetry.h"
#include "terminal.h"
#include "text_file.h"

#include "residency/eviction_policy.h"
#include "session/model.h"
#include "session/session.h"
#include "telemetry/plan_text.h"
#include "telemetry/summary.h"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

/// One run of the command: loaded model, session, and where text goes.
class Run {
public:
    explicit Run(RunFlags flags) : flags_(std::move(flags)) {}
    ~Run() { interrupt_.watch(nullptr); } // the session goes first
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    Status execute() {
        const Status opened = telemetry_.open(flags_);
        const Status status = opened ? work() : opened;
        const Status written =
            telemetry_.finish(status, model_ ? &*model_ : nullptr, session_ ? &*session_ : nullptr);
        return status ? written : status;
    }

private:
    Status work() {
        if (auto ready = prepare(); !ready) {
            return ready;
        }
        if (flags_.plan) {
            return {};
        }
        auto status = flags_.prompt ? answer_once() : converse();
        if (session_->stats().prompt_tokens > 0) {
            print_summary();
        }
        const Status traced = trace_ ? trace_->close() : Status();
        return status ? traced : status;
    }

    Status prepare() {
        if (auto ready = find_prompt(); !ready) {
            return ready;
        }
        std::string shown = flags_.model.value_or("");
        if (!flags_.model) {
            const auto embedded = embedded_model_path();
            if (!embedded) {
                return fail(ErrorCode::NotFound,
                            "the embedded model is not where it was installed; name one with -m");
            }
            flags_.model = *embedded;
            shown =
                std::filesystem::path(*embedded).filename().string(); // the folder was not the user's choice
            if (!flags_.prompt) {
                flags_.prompt = kStoryPrompt;
            }
        }
        auto plan = plan_run(plan_request(flags_));
        if (!plan) {
            return fail(plan.error());
        }
        plan_ = std::move(*plan);
        if (flags_.plan) {
            say_plan();
            return output_.status();
        }
        telemetry_.planned(plan_, shown);
        ModelOptions options = plan_.model;
        flags_.session = plan_.session;
        flags_.row_stream = options.row_stream;
        if (flags_.route_trace) {
            auto trace = open_route_trace(*flags_.route_trace, options.path);
            if (!trace) {
                return fail(trace.error());
            }
            trace_ = std::move(*trace);
            options.route_sink = trace_.get();
        }
        options.progress = [this](float done) {
            progress_.show("loading", done);
            telemetry_.loading(done);
            return !interrupt_.interrupted();
        };
        auto model = Model::load(options);
        progress_.clear();
        if (!model) {
            return fail(model.error());
        }
        model_.emplace(std::move(*model));
        telemetry_.loaded(model_->info());
        return start_session();
    }

    /// With --plan all of it to standard output; otherwise warnings and the command, to standard error.
    void say_plan() {
        if (flags_.plan) {
            output_.write(telemetry::plan_report(plan_));
        } else {
            std::fprintf(stderr, "plan: %s\n", telemetry::plan_command(plan_).c_str());
        }
        for (const std::string &warning : plan_.warnings) {
            std::fprintf(stderr, "sluice: %s\n", warning.c_str());
        }
    }

    Status find_prompt() {
        if (flags_.prompt_file) {
            auto text = read_text_file(*flags_.prompt_file);
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
        if (!chat_ && !flags_.system_prompt.empty()) {
            return fail(
                ErrorCode::Unsupported,
                fmt::format("{} has no chat template, so --system-prompt is not possible", *flags_.model));
        }
        if (!chat_ && !flags_.prompt) {
            return fail(ErrorCode::InvalidArgument, "there is no prompt; give one with -p or -f");
        }
        say_plan();
        std::fprintf(stderr, "%s\n", telemetry::mode_line(model_->info()).c_str());
        if (trace_ && model_->info().expert_banks == 0) {
            return fail(ErrorCode::Unsupported,
                        "--route-trace needs experts that are streamed (--moe-stream), and here are none");
        }
        telemetry_.attach(flags_.session);
        auto session = Session::create(*model_, flags_.session);
        if (!session) {
            return fail(session.error());
        }
        session_.emplace(std::move(*session));
        for (const std::string &note : {model_->info().dense_note, model_->info().io_note}) {
            if (!note.empty()) {
                std::fprintf(stderr, "sluice: %s\n", note.c_str());
            }
        }
        if (flags_.row_stream) {
            for (const std::string &line : telemetry::row_table_lines(model_->row_tables())) {
                std::fprintf(stderr, "%s\n", line.c_str());
            }
        }
        interrupt_.watch(&*session_);
        flags_.sampling.repeat_penalty = flags_.repeat_penalty.value_or(chat_ ? 1.0F : 1.1F);
        limit_ = flags_.predict.value_or(chat_ ? -1 : 256);
        telemetry_.started(flags_, plan_.model, *model_, *session_);
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
            interrupt_.acknowledge(); // one at the prompt was for what stood there
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
        telemetry_.answer(tokens->size());
        const auto write = [&](std::string_view piece) {
            progress_.clear();
            telemetry_.text(piece);
            if (!output_.write(answer_.empty() ? lead : "") || !output_.write(piece) || trace_failed() ||
                !telemetry_.status()) {
                session_->cancel(); // nobody will see the rest, or not all that was asked for
            }
            answer_ += piece;
        };
        auto reason =
            session_->generate(*tokens, limit_, flags_.sampling, write, [this](size_t done, size_t all) {
                progress_.show("prefill", static_cast<double>(done) / static_cast<double>(all));
                if (interrupt_.interrupted() || trace_failed() || !telemetry_.status()) {
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
        if (trace_failed()) {
            return fail(trace_->status().error());
        }
        if (auto written = telemetry_.status(); !written) {
            return fail(written.error());
        }
        if (reason && (*reason != StopReason::Cancelled || !flags_.prompt)) {
            telemetry_.done(*reason); // else the run has failed, which comes as an error
        }
        return reason;
    }

    [[nodiscard]] bool trace_failed() const { return trace_ && !trace_->status(); }

    void print_summary() {
        std::fputc('\n', stderr);
        for (const std::string &line :
             telemetry::summary_lines(model_->info(), session_->stats(), session_->dense_residency())) {
            std::fprintf(stderr, "%s\n", line.c_str());
        }
    }

    RunFlags flags_;
    RunPlan plan_;
    ProgressLine progress_;
    InterruptGuard interrupt_;
    TextOutput output_;
    std::unique_ptr<telemetry::RouteTraceWriter> trace_; ///< outlives the model; null: none asked for
    RunTelemetry telemetry_;                             ///< outlives the session that reports to it
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
    add_run_flags(*command, *flags);
    command->callback([command, flags, &exit_code] {
        flags->as_resolved = resolved_flags(*command);
        const Status status = Run(*flags).execute();
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
