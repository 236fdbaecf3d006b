// sluice bench-run: computes made-up tokens and prints what that took as one JSON object. `sluice bench`
// starts it for each run of each setting.

#include "bench_run.h"
#include "command.h"
#include "output.h"
#include "run_flags.h"

#include "planning/plan.h"
#include "session/model.h"
#include "session/session.h"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

namespace sluice::cli {

namespace {

struct BenchRunFlags {
    RunFlags run;
    int prompt_tokens = 0;
    int tokens = 0;
};

/// Tokens spread over the vocabulary. The same ones whatever the settings compute, so that all of them route
/// alike, and a model without a vocabulary will do.
std::vector<Token> made_up_tokens(size_t count, size_t vocabulary) {
    std::vector<Token> tokens;
    tokens.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t state = i * 2654435761U + 12345U;
        state ^= state >> 16U;
        state *= 2246822519U;
        state ^= state >> 13U;
        tokens.push_back(static_cast<Token>(state % vocabulary));
    }
    return tokens;
}

void add_token(BenchRun &run, const TokenSample &sample) {
    run.token_ms.push_back(sample.time.wall * 1e3);
    run.hits += sample.hits;
    run.misses += sample.misses;
    run.read_bytes += sample.expert_read_bytes + sample.speculative_read_bytes + sample.row_read_bytes;
}

Result<BenchRun> compute(const BenchRunFlags &flags, const RunPlan &plan) {
    BenchRun run;
    bool prefilling = true;
    auto model = Model::load(plan.model);
    if (!model) {
        return fail(model.error());
    }
    SessionOptions options = plan.session;
    options.on_sample = [&](const TokenSample &sample) {
        if (prefilling) {
            run.prefill_seconds += sample.time.wall;
        } else {
            add_token(run, sample);
        }
    };
    auto session = Session::create(*model, options);
    if (!session) {
        return fail(session.error());
    }
    const auto prompt = static_cast<size_t>(flags.prompt_tokens);
    const auto tokens = made_up_tokens(prompt + static_cast<size_t>(flags.tokens), session->vocab_size());
    if (tokens.size() > session->context_tokens()) {
        return fail(ErrorCode::InvalidArgument, fmt::format("{} tokens do not fit the context of {} (-c)",
                                                            tokens.size(), session->context_tokens()));
    }
    for (size_t done = 0; done < tokens.size();) {
        prefilling = done < prompt;
        const size_t count = prefilling ? prompt : 1;
        if (auto decoded = session->decode(std::span(tokens).subspan(done, count)); !decoded) {
            return fail(decoded.error());
        }
        done += count;
    }
    const RunStats stats = session->stats();
    run.streaming = model->info().streaming;
    if (stats.experts.cache_bytes > 0) {
        run.cache_bytes = stats.experts.cache_bytes;
    }
    run.load_seconds = model->info().load_seconds;
    run.peak_bytes = stats.peak_resident_bytes;
    return run;
}

Status bench_run(const BenchRunFlags &flags) {
    PlanRequest request = plan_request(flags.run);
    request.model.path = flags.run.model.value_or("");
    request.model.hot_set_folder.clear(); // a run must not begin with what another setting's held
    const auto plan = plan_run(request);
    if (!plan) {
        return fail(plan.error());
    }
    const auto run = compute(flags, *plan);
    if (!run) {
        return fail(run.error());
    }
    TextOutput output;
    output.write(to_json(*run).dump() + "\n");
    return output.status();
}

} // namespace

nlohmann::json to_json(const BenchRun &run) {
    const auto or_null = [](const std::optional<uint64_t> &value) {
        return value ? nlohmann::json(*value) : nlohmann::json();
    };
    return {{"mode", run.streaming ? "streaming" : "resident"},
            {"cache_bytes", or_null(run.cache_bytes)},
            {"token_ms", run.token_ms},
            {"prefill_seconds", run.prefill_seconds},
            {"load_seconds", run.load_seconds},
            {"peak_bytes", or_null(run.peak_bytes)},
            {"hits", run.hits},
            {"misses", run.misses},
            {"read_bytes", run.read_bytes}};
}

Result<BenchRun> bench_run_from(const std::string &json) {
    try {
        const nlohmann::json read = nlohmann::json::parse(json);
        const auto optional = [&read](const char *member) {
            const nlohmann::json &value = read.at(member);
            return value.is_null() ? std::nullopt : std::optional(value.get<uint64_t>());
        };
        BenchRun run;
        run.streaming = read.at("mode") == "streaming";
        run.cache_bytes = optional("cache_bytes");
        run.token_ms = read.at("token_ms").get<std::vector<double>>();
        run.prefill_seconds = read.at("prefill_seconds");
        run.load_seconds = read.at("load_seconds");
        run.peak_bytes = optional("peak_bytes");
        run.hits = read.at("hits");
        run.misses = read.at("misses");
        run.read_bytes = read.at("read_bytes");
        return run;
    } catch (const nlohmann::json::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("a run did not say what it measured: {}", error.what()));
    }
}

std::vector<std::string> bench_run_arguments(const std::string &model, int prompt_tokens, int tokens) {
    return {kBenchRunCommand, "-m", model, "-p", std::to_string(prompt_tokens), "-n", std::to_string(tokens)};
}

void add_bench_run_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(kBenchRunCommand, "One run of sluice bench");
    command->group(""); // not in the help: nobody but sluice bench needs it
    auto flags = std::make_shared<BenchRunFlags>();
    command->add_option("-m,--model", flags->run.model)->required();
    command->add_option("-p,--n-prompt", flags->prompt_tokens)->required();
    command->add_option("-n,--n-gen", flags->tokens)->required();
    add_plan_flags(*command, flags->run);
    command->callback([flags, &exit_code] {
        const Status status = bench_run(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
