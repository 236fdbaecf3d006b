// sluice bench: settings of one model compared, each run in a process of its own, round by round.

#include "bench_matrix.h"
#include "bench_run.h"
#include "bench_table.h"
#include "command.h"
#include "output.h"
#include "terminal.h"
#include "text_file.h"

#include "gguf/gguf_directory.h"
#include "platform/child_program.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

namespace sluice::cli {

namespace {

struct BenchFlags {
    BenchTask task;
    BenchMatrix matrix;
    std::optional<std::string> json;
    bool markdown = false;
};

/// Why a run has failed, as its process says.
std::string reason_of(const platform::ProgramRun &run) {
    if (run.signal != 0) {
        return fmt::format("its process was ended by signal {} ({})", run.signal, strsignal(run.signal));
    }
    std::string text = run.err.substr(0, run.err.find_last_not_of('\n') + 1);
    text = text.substr(text.rfind('\n') + 1);
    const std::string prefix = "sluice: ";
    return text.empty()               ? fmt::format("its process ended with exit code {}", run.exit_code)
           : text.starts_with(prefix) ? text.substr(prefix.size())
                                      : text;
}

class Bench {
public:
    explicit Bench(const BenchFlags &flags) : flags_(flags) {
        for (BenchSetting &setting : flags.matrix.settings()) {
            results_.push_back({.setting = std::move(setting), .runs = {}, .failure = {}});
        }
    }

    Status execute() {
        if (auto opened = open(); !opened) {
            return opened;
        }
        for (int round = 1; round <= flags_.task.rounds; ++round) {
            for (BenchResult &result : results_) {
                if (auto ran = run(result, round); !ran) {
                    return ran;
                }
            }
        }
        TextOutput output;
        output.write(bench_table(flags_.task, results_, flags_.markdown));
        const Status saved =
            flags_.json ? write_text_file(*flags_.json, bench_json(flags_.task, results_, SLUICE_VERSION))
                        : Status();
        for (const Status &written : {output.status(), saved}) {
            if (!written) {
                return written;
            }
        }
        return all_measured();
    }

private:
    [[nodiscard]] size_t rounds() const { return static_cast<size_t>(flags_.task.rounds); }

    /// What would fail in every run fails before the first one.
    Status open() {
        program_ = platform::own_program();
        if (program_.empty()) {
            return fail(ErrorCode::Unsupported, "this system does not tell where this program is");
        }
        if (flags_.json) {
            if (Status writable = check_output(*flags_.json, {flags_.task.model}); !writable) {
                return writable;
            }
        }
        auto opened = gguf::GgufDirectory::open(flags_.task.model, false, platform::system_files());
        if (!opened) {
            return fail(opened.error());
        }
        model_ = std::move(*opened);
        return {};
    }

    /// One run of one setting. What the model's last run left in the page cache is of no use to it.
    Status run(BenchResult &result, int round) {
        if (!result.failure.empty()) {
            return {};
        }
        for (const auto &shard : model_->shards()) {
            platform::drop_cached(*shard);
        }
        std::vector<std::string> arguments =
            bench_run_arguments(flags_.task.model, flags_.task.prompt_tokens, flags_.task.tokens);
        arguments.insert(arguments.end(), result.setting.arguments.begin(), result.setting.arguments.end());
        const auto ended =
            platform::run_program(program_, arguments, [this] { return !interrupt_.interrupted(); });
        if (!ended) {
            return ended.error().code == ErrorCode::Cancelled
                       ? fail(ErrorCode::Cancelled, fmt::format("interrupted after {} runs of {}", runs_,
                                                                results_.size() * rounds()))
                       : fail(ended.error());
        }
        ++runs_;
        const auto measured =
            ended->exit_code == 0 ? bench_run_from(ended->out) : fail(ErrorCode::Io, reason_of(*ended));
        if (measured) {
            result.runs.push_back(*measured);
        } else {
            result.failure = measured.error().message;
        }
        tell(result, round);
        return {};
    }

    void tell(const BenchResult &result, int round) const {
        const std::string outcome =
            result.failure.empty()
                ? fmt::format("{:.2f} ms per token", quantile(result.runs.back().token_ms, 0.5))
                : "failed: " + result.failure;
        std::fprintf(stderr, "round %d of %d: %s: %s\n", round, flags_.task.rounds,
                     result.setting.line().c_str(), outcome.c_str());
    }

    [[nodiscard]] Status all_measured() const {
        const auto failed = std::count_if(results_.begin(), results_.end(),
                                          [](const BenchResult &result) { return !result.failure.empty(); });
        if (failed == 0) {
            return {};
        }
        return fail(ErrorCode::Io, fmt::format("{} of {} settings failed", failed, results_.size()));
    }

    const BenchFlags &flags_;
    const InterruptGuard interrupt_;
    std::string program_;
    std::unique_ptr<gguf::GgufDirectory> model_;
    std::vector<BenchResult> results_;
    size_t runs_ = 0;
};

} // namespace

void add_bench_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(
        "bench", "Compare settings: every combination of the values listed, in processes of their own");
    auto flags = std::make_shared<BenchFlags>();
    constexpr int kMostTokens = 1 << 20;
    command->add_option("-m,--model", flags->task.model, "GGUF file, or the first of several shards")
        ->required();
    command->add_option("-p,--n-prompt", flags->task.prompt_tokens, "Tokens of the prompt, which are made up")
        ->check(CLI::Range(1, kMostTokens))
        ->capture_default_str();
    command->add_option("-n,--n-gen", flags->task.tokens, "Tokens computed after it, one by one")
        ->check(CLI::Range(1, kMostTokens))
        ->capture_default_str();
    command
        ->add_option("-r,--repetitions,--rounds", flags->task.rounds,
                     "Rounds; in each one every setting runs once")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_option("--json", flags->json, "Write all numbers to this file");
    command->add_flag("--md", flags->markdown, "Print the table in Markdown");
    flags->matrix.add_flags(*command);
    command->callback([flags, &exit_code] {
        const Status status = Bench(*flags).execute();
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
