// sluice perplexity: how well a model, run one token at a time, foresees a text. It prices lossy modes.

#include "command.h"
#include "embedded_model.h"
#include "output.h"
#include "run_flags.h"
#include "terminal.h"
#include "text_file.h"

#include "session/model.h"
#include "session/session.h"
#include "telemetry/summary.h"
#include "tools/perplexity.h"

#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

struct PerplexityFlags {
    RunFlags run;
    int chunks = -1;
    bool json = false;
};

class Measurement {
public:
    explicit Measurement(const PerplexityFlags &flags) : flags_(flags) {}
    ~Measurement() { interrupt_.watch(nullptr); } // the session goes first
    Measurement(const Measurement &) = delete;
    Measurement &operator=(const Measurement &) = delete;

    Status execute() {
        if (auto ready = load(); !ready) {
            return ready;
        }
        auto tokens = session_->tokenize(text_, true, false);
        auto start = session_->tokenize("", true, false);
        if (!tokens || !start) {
            return fail(tokens ? start.error() : tokens.error());
        }
        const size_t context = context_tokens();
        const size_t there = tokens->size() / context;
        const size_t wanted = flags_.chunks < 0 ? there : std::min(there, static_cast<size_t>(flags_.chunks));
        if (wanted == 0) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{} has {} tokens, fewer than one context of {}", *flags_.run.prompt_file,
                                    tokens->size(), context));
        }
        for (size_t chunk = 0; chunk < wanted; ++chunk) {
            std::vector<Token> part(tokens->begin() + static_cast<std::ptrdiff_t>(chunk * context),
                                    tokens->begin() + static_cast<std::ptrdiff_t>((chunk + 1) * context));
            if (!start->empty()) {
                part[0] = start->front(); // each chunk begins as a text does
            }
            if (auto scored = score(part, chunk, wanted); !scored) {
                return scored;
            }
        }
        return print(wanted);
    }

private:
    Status load() {
        auto text = read_text_file(*flags_.run.prompt_file);
        if (!text) {
            return fail(text.error());
        }
        text_ = std::move(*text);
        if (!flags_.run.model) {
            const auto embedded = embedded_model_path();
            if (!embedded) {
                return fail(ErrorCode::NotFound,
                            "the embedded model is not where it was installed; name one with -m");
            }
            flags_.run.model = *embedded;
        }
        auto plan = plan_run(plan_request(flags_.run));
        if (!plan) {
            return fail(plan.error());
        }
        for (const std::string &warning : plan->warnings) {
            std::fprintf(stderr, "sluice: %s\n", warning.c_str());
        }
        plan->model.progress = [this](float done) {
            progress_.show("loading", done);
            return !interrupt_.interrupted();
        };
        auto model = Model::load(plan->model);
        progress_.clear();
        if (!model) {
            return fail(model.error());
        }
        model_.emplace(std::move(*model));
        auto session = Session::create(*model_, plan->session);
        if (!session) {
            return fail(session.error());
        }
        session_.emplace(std::move(*session));
        interrupt_.watch(&*session_);
        std::fprintf(stderr, "%s\n", telemetry::mode_line(model_->info()).c_str());
        return {};
    }

    /// As asked for; llama.cpp's own may be larger.
    [[nodiscard]] size_t context_tokens() const {
        const uint32_t asked = flags_.run.session.context_tokens;
        return asked > 0 ? asked : session_->context_tokens();
    }

    /// One token after the other, as a text is generated. The second half counts: every token there has half
    /// a context before it, as llama.cpp has it.
    Status score(const std::vector<Token> &part, size_t chunk, size_t chunks) {
        session_->reset();
        for (size_t i = 0; i + 1 < part.size(); ++i) {
            if (auto decoded = session_->decode({&part[i], 1}); !decoded) {
                return fail(decoded.error());
            }
            if (interrupt_.interrupted()) {
                return fail(ErrorCode::Cancelled, "interrupted: the text was not read to its end");
            }
            if (i >= part.size() / 2) {
                perplexity_.add(session_->logits(), part[i + 1]);
            }
        }
        progress_.show("perplexity", static_cast<double>(chunk + 1) / static_cast<double>(chunks));
        return {};
    }

    Status print(size_t chunks) {
        progress_.clear();
        TextOutput output;
        if (flags_.json) {
            output.write(nlohmann::json{{"perplexity", perplexity_.value()},
                                        {"error", perplexity_.error()},
                                        {"tokens", perplexity_.tokens()},
                                        {"chunks", chunks},
                                        {"context", context_tokens()},
                                        {"lossy", model_->info().lossy},
                                        {"version", 1}}
                             .dump(2) +
                         "\n");
        } else {
            output.write(fmt::format("perplexity: {:.4f} +/- {:.4f} over {} tokens in {} chunks of {}\n",
                                     perplexity_.value(), perplexity_.error(), perplexity_.tokens(), chunks,
                                     context_tokens()));
        }
        for (const std::string &line :
             telemetry::summary_lines(model_->info(), session_->stats(), session_->dense_residency())) {
            if (line.starts_with("moe-") || line.starts_with("lossy")) {
                std::fprintf(stderr, "%s\n", line.c_str());
            }
        }
        return output.status();
    }

    PerplexityFlags flags_;
    std::string text_;
    ProgressLine progress_;
    InterruptGuard interrupt_;
    std::optional<Model> model_;
    std::optional<Session> session_;
    tools::Perplexity perplexity_;
};

} // namespace

void add_perplexity_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(
        "perplexity", "Measure how well a model foresees a text, one token at a time; prices lossy modes");
    auto flags = std::make_shared<PerplexityFlags>();
    command->add_option("-m,--model", flags->run.model,
                        "GGUF file, or the first of several shards (default: the embedded model)");
    command->add_option("-f,--file", flags->run.prompt_file, "The text")->required();
    command->add_option("--chunks", flags->chunks, "Contexts of text to read; -1: all there are")
        ->check(CLI::Range(-1, 1 << 30))
        ->capture_default_str();
    command->add_flag("--json", flags->json, "Print one JSON object");
    add_plan_flags(*command, flags->run);
    add_lossy_flags(*command, flags->run.lossy);
    command->callback([flags, &exit_code] {
        const Status status = Measurement(*flags).execute();
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
