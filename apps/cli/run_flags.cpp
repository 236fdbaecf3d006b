#include "run_flags.h"

#include "options/cache_policy.h"
#include "platform/user_cache.h"
#include "policy_names.h"

#include <cmath>
#include <cstdlib>
#include <map>

namespace sluice::cli {

namespace {

/// Words of a flag and what they mean. The flag keeps the word: an error and the help then show words only,
/// and no number is taken for one.
template <typename Meaning>
using Words = std::map<std::string, Meaning>;

const Words<DenseWeights> kDenseWeights{{"anon", DenseWeights::Anon},
                                        {"mmap", DenseWeights::Mmap},
                                        {"warm", DenseWeights::Warm},
                                        {"locked", DenseWeights::Locked},
                                        {"ahwb", DenseWeights::Ahwb}};
const Words<IoEngine> kEngines{
    {"auto", IoEngine::Auto}, {"uring", IoEngine::Uring}, {"threads", IoEngine::Threads}};

template <typename Meaning>
CLI::Validator one_of(const Words<Meaning> &words) {
    std::vector<std::string> all;
    for (const auto &[word, meaning] : words) {
        all.push_back(word);
    }
    return CLI::IsMember(all);
}

std::string check_lookahead(const std::string &text) {
    constexpr unsigned long kMost = 1024;
    if (text == "auto" || text == "off") {
        return {};
    }
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    return digits && text.size() <= 4 && std::stoul(text) <= kMost
               ? ""
               : "'" + text + "' is neither 'auto' nor 'off' nor a number up to " + std::to_string(kMost);
}

std::string check_finite(const std::string &text) {
    return std::isfinite(std::strtod(text.c_str(), nullptr)) ? "" : "'" + text + "' is not a finite number";
}

std::string check_cache(const std::string &text) {
    const bool number = !text.empty() && text.size() <= 8 && // more digits are more than memory can be
                        text.find_first_not_of("0123456789") == std::string::npos;
    return text == "auto" || (number && std::stoul(text) > 0)
               ? ""
               : "'" + text + "' is neither a whole number of MiB above 0 nor 'auto'";
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

void add_context_flags(CLI::App &command, RunFlags &flags) {
    command
        .add_option("-c,--ctx-size", flags.session.context_tokens,
                    "Context in tokens; 0: 4096, or what the model was trained for if less")
        ->capture_default_str();
    command
        .add_option("-t,--threads", flags.session.threads,
                    "Compute threads; 0: physical cores that may be used, no more than a CPU quota")
        ->check(CLI::Range(0, 512))
        ->capture_default_str();
    command
        .add_option(
            "--ubatch-size", flags.ubatch,
            "Tokens computed together while prefilling (-ub; default: 512, less where memory is short)")
        ->check(CLI::Range(1, 65536));
    command
        .add_option("--ram-mb", flags.ram_mb,
                    "Ceiling on all the memory that the run takes, in MiB (default: what is free now)")
        ->check(CLI::Range(1, 1 << 30));
}

void add_cache_flags(CLI::App &command, RunFlags &flags) {
    CLI::Option *stream =
        command.add_flag("--moe-stream", flags.moe_stream,
                         "Stream experts from storage, whatever fits (default: where there are experts)");
    command
        .add_flag("--no-moe-stream", flags.no_moe_stream,
                  "Hold the whole model in memory (default: where there are no experts)")
        ->excludes(stream);
    command
        .add_option("--cache-mb", flags.cache_mb, "Expert cache in MiB, or 'auto': what free memory allows")
        ->check(check_cache)
        ->capture_default_str();
    command.add_option("--cache-policy", flags.cache_policy, "How a full cache chooses the experts it drops")
        ->check(CLI::IsMember(policy_names()))
        ->capture_default_str();
    command
        .add_option("--dense-weights", flags.dense_weights,
                    "How weights that every token needs are held while streaming (ahwb: Android only)")
        ->check(one_of(kDenseWeights))
        ->capture_default_str();
    CLI::Option *rows =
        command
            .add_flag("--row-stream", flags.row_stream,
                      "With --moe-stream: read only the rows that are gathered of weights never multiplied "
                      "(default: where the expert cache gets larger)")
            ->needs(stream);
    command.add_option("--row-stream-mb", flags.row_stream_mb, "MiB of such rows to keep in memory")
        ->check(check_row_window)
        ->capture_default_str()
        ->needs(stream)
        ->needs(rows);
}

void add_reading_flags(CLI::App &command, RunFlags &flags) {
    command
        .add_option("--io-threads", flags.io_threads,
                    "Threads that read experts, instead of io_uring; not with --io-depth (default: the run "
                    "finds out)")
        ->check(CLI::Range(1, 64));
    command
        .add_option("--io-engine", flags.io_engine,
                    "What reads experts and rows; uring: Linux's io_uring; auto: the run finds out")
        ->check(one_of(kEngines))
        ->capture_default_str();
    command
        .add_option("--io-depth", flags.io_depth,
                    "Reads of experts in flight with io_uring (default: the run finds out)")
        ->check(CLI::Range(1, 1024));
    command.add_flag("--no-direct", flags.no_direct,
                     "Read through the page cache, also where reading past it is safe");
    command.add_flag("--no-repack", flags.no_repack,
                     "Keep weights in the file's layout, also where another is faster");
}

void add_guess_flags(CLI::App &command, RunFlags &flags) {
    command
        .add_option(
            "--lookahead", flags.lookahead,
            "Guess so many of the next layer's experts and read them ahead: 'auto' (as many as a token "
            "uses, while that is measured to pay), 'off', or a number")
        ->check(check_lookahead)
        ->capture_default_str();
    command.add_flag("--no-hot-set", flags.no_hot_set,
                     "Neither begin with the experts that the last run held nor keep them for the next");
}

void add_output_flags(CLI::App &command, RunFlags &flags) {
    command
        .add_option("--route-trace", flags.route_trace, "Write to this file which experts the router chooses")
        ->excludes(command.get_option("--no-moe-stream"));
    command.add_option("--csv", flags.csv, "Write what each token took and read to this file, as a table");
    command.add_option(
        "--progress", flags.progress,
        "Write what happens to this file (or number of an open file descriptor), as lines of JSON");
    command.add_option("--decode-trace", flags.decode_trace,
                       "Write what each node of each graph took to this file; slows the run down");
}

} // namespace

void add_lossy_flags(CLI::App &command, LossyOptions &lossy) {
    command
        .add_option("--n-expert-used", lossy.n_expert_used,
                    "Lossy: experts that a token uses in each layer, instead of the model's number")
        ->check(CLI::Range(1, 1024));
    command
        .add_option(
            "--drop-cold", lossy.drop_cold,
            "Lossy: leave out experts not in the cache that weigh less than this share of an even one")
        ->check(CLI::Range(0.0, 1024.0));
    command
        .add_option(
            "--substitute", lossy.substitute,
            "Lossy: use cached experts in the place of missing ones whose router score is higher by at "
            "most this share of the scores' range")
        ->check(CLI::Range(0.0, 1.0));
}

void add_plan_flags(CLI::App &command, RunFlags &flags) {
    add_context_flags(command, flags);
    add_cache_flags(command, flags);
    add_reading_flags(command, flags);
    add_guess_flags(command, flags);
}

void add_run_flags(CLI::App &command, RunFlags &flags) {
    command.add_option("-m,--model", flags.model,
                       "GGUF file, or the first of several shards (default: the embedded model)");
    CLI::Option *prompt = command.add_option("-p,--prompt", flags.prompt, "The prompt");
    command.add_option("-f,--file", flags.prompt_file, "Read the prompt from this file")->excludes(prompt);
    command.add_option("--system-prompt", flags.system_prompt, "System prompt for a chat (-sys)");
    command.add_option(
        "-n,--predict,--n-predict", flags.predict,
        "Tokens to generate; -1: until the text or the context ends (default: 256, in a chat -1)");
    add_sampling_flags(command, flags);
    CLI::Option *chat =
        command.add_flag("--chat", flags.chat, "Apply the model's chat template (default: where it has one)");
    command.add_flag("--raw", flags.raw, "Continue the prompt as it is (default: where it has none)")
        ->excludes(chat)
        ->excludes(command.get_option("--system-prompt"));
    add_plan_flags(command, flags);
    add_lossy_flags(command, flags.lossy);
    command.add_flag("--plan", flags.plan, "Print what would be done and taken, and why; do nothing");
    command.add_flag("--auto", flags.automatic,
                     "Decide all that is not given from the file and the machine (the default)");
    add_output_flags(command, flags);
}

std::string resolved_flags(const CLI::App &command) {
    std::string line;
    const auto add = [&line](const std::string &word) {
        const bool plain = !word.empty() && word.find_first_of(" \t\n'\"") == std::string::npos;
        line += (line.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
    };
    for (const CLI::Option *option : command.get_options()) {
        const std::string name = option->get_name();
        if (name.ends_with("prompt") || name.starts_with("--help")) {
            continue;
        }
        const bool takes_value = option->get_items_expected_max() > 0;
        if (!takes_value && option->count() > 0) {
            add(name);
        } else if (const std::string value =
                       option->count() > 0 ? option->results().back() : option->get_default_str();
                   takes_value && (option->count() > 0 || !value.empty())) {
            add(name);
            add(value);
        }
    }
    return line;
}

PlanRequest plan_request(const RunFlags &flags) {
    PlanRequest request;
    ModelOptions &options = request.model;
    options.path = flags.model.value_or("");
    options.stream = flags.moe_stream      ? StreamMode::Force
                     : flags.no_moe_stream ? StreamMode::Never
                                           : StreamMode::Auto;
    if (flags.cache_mb != "auto") {
        options.cache_bytes = std::stoull(flags.cache_mb) << 20U;
    }
    options.cache_policy = *options::policy_named(flags.cache_policy);
    if (flags.lookahead != "auto") {
        options.lookahead =
            flags.lookahead == "off" ? 0U : static_cast<uint32_t>(std::stoul(flags.lookahead));
    }
    options.hot_set_folder = flags.no_hot_set ? "" : platform::user_cache_directory();
    options.lossy = flags.lossy;
    options.dense_weights = kDenseWeights.at(flags.dense_weights);
    options.row_stream = flags.row_stream;
    options.row_window_bytes = static_cast<uint64_t>(flags.row_stream_mb * (1U << 20U));
    options.io_threads = flags.io_threads.value_or(options.io_threads);
    options.io_engine = kEngines.at(flags.io_engine);
    options.io_depth = flags.io_depth.value_or(options.io_depth);
    options.direct = !flags.no_direct;
    options.repack = !flags.no_repack;
    request.session = flags.session;
    request.session.ubatch_tokens = flags.ubatch.value_or(request.session.ubatch_tokens);
    if (flags.ram_mb) {
        request.ram_bytes = uint64_t{*flags.ram_mb} << 20U;
    }
    request.rows_given = flags.row_stream;
    request.ubatch_given = flags.ubatch.has_value();
    return request;
}

} // namespace sluice::cli
