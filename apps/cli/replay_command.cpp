// sluice replay: routing traces through the cache's policies, without a model.

#include "command.h"
#include "output.h"
#include "policy_names.h"
#include "text_file.h"

#include "options/cache_policy.h"
#include "tools/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

constexpr const char *kOptimum = "optimum";

struct ReplayFlags {
    std::vector<std::string> traces;
    std::vector<uint64_t> slots;
    std::vector<uint64_t> cache_mb;
    std::vector<double> cycles;
    uint64_t slice_kb = 0;
    std::vector<std::string> policies;
    bool json = false;
};

/// One cache size, and what each policy made of it, in the order of policy columns.
struct Row {
    uint64_t slots = 0;
    std::optional<uint64_t> cache_mb; ///< where the size was asked for in MiB
    std::vector<tools::ReplayCounts> counts;
};

struct Replay {
    std::string name;
    telemetry::RouteTrace trace;
    tools::TraceFacts facts;
    std::vector<Row> rows;
};

Result<std::vector<Row>> rows_for(const ReplayFlags &flags, const Replay &replay) {
    std::vector<Row> rows;
    for (const uint64_t slots : flags.slots) {
        rows.push_back({.slots = slots, .cache_mb = {}, .counts = {}});
    }
    for (const uint64_t mb : flags.cache_mb) {
        const uint64_t slots = mb * 1024 / flags.slice_kb;
        if (slots == 0) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("a cache of {} MiB has no room for an expert of {} KiB (--slice-kb)", mb,
                                    flags.slice_kb));
        }
        rows.push_back({.slots = slots, .cache_mb = mb, .counts = {}});
    }
    if (!rows.empty()) {
        return rows;
    }
    if (replay.facts.cycle_slots == 0) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{} has no decoded tokens, so the slots of a cycle are not known; name sizes "
                                "with --slots",
                                replay.name));
    }
    for (const double cycles : flags.cycles) {
        const double slots = std::round(cycles * static_cast<double>(replay.facts.cycle_slots));
        rows.push_back(
            {.slots = std::max(uint64_t{1}, static_cast<uint64_t>(slots)), .cache_mb = {}, .counts = {}});
    }
    return rows;
}

Result<Replay> replay_file(const ReplayFlags &flags, const std::string &path) {
    auto text = read_text_file(path);
    if (!text) {
        return fail(text.error());
    }
    auto trace = telemetry::parse_route_trace(*text, path);
    if (!trace) {
        return fail(trace.error());
    }
    Replay replay{.name = path, .trace = std::move(*trace), .facts = {}, .rows = {}};
    replay.facts = tools::trace_facts(replay.trace);
    auto rows = rows_for(flags, replay);
    if (!rows) {
        return fail(rows.error());
    }
    replay.rows = std::move(*rows);
    for (Row &row : replay.rows) {
        for (const std::string &policy : flags.policies) {
            row.counts.push_back(tools::replay(replay.trace, *options::policy_named(policy), row.slots));
        }
        row.counts.push_back(tools::replay_optimum(replay.trace, row.slots));
    }
    return replay;
}

std::vector<std::string> column_names(const ReplayFlags &flags) {
    std::vector<std::string> names = flags.policies;
    names.emplace_back(kOptimum);
    return names;
}

std::string percent(uint64_t hits, uint64_t asks) {
    return asks == 0 ? "unmeasured"
                     : fmt::format("{:.1f} %", 100.0 * static_cast<double>(hits) / static_cast<double>(asks));
}

std::string as_text(const ReplayFlags &flags, const Replay &replay) {
    const tools::TraceFacts &facts = replay.facts;
    std::string text =
        fmt::format("{}: {} layers of {} experts; {} prefill passes, {} decoded tokens", replay.name,
                    replay.trace.layers, replay.trace.experts, facts.prefill_passes, facts.decoded_tokens);
    if (facts.cycle_slots > 0) {
        text += fmt::format(", each of {} slots (a cycle)", facts.cycle_slots);
    }
    text += fmt::format("\n{}{:>8}{:>9}", flags.cache_mb.empty() ? "" : fmt::format("{:>8}", "MiB"), "cycles",
                        "slots");
    for (const std::string &name : column_names(flags)) {
        text += fmt::format("{:>11}", name);
    }
    text += '\n';
    for (const Row &row : replay.rows) {
        const double cycle = static_cast<double>(facts.cycle_slots);
        text += (row.cache_mb ? fmt::format("{:>8}", *row.cache_mb) : "") +
                (cycle > 0 ? fmt::format("{:>8.2f}", static_cast<double>(row.slots) / cycle)
                           : fmt::format("{:>8}", "-")) +
                fmt::format("{:>9}", row.slots);
        for (const tools::ReplayCounts &counts : row.counts) {
            text += fmt::format("{:>11}", percent(counts.decode_hits, counts.decode_asks));
        }
        text += '\n';
    }
    return text;
}

nlohmann::ordered_json as_json(const ReplayFlags &flags, const Replay &replay) {
    nlohmann::ordered_json result = {{"trace", replay.name},
                                     {"layers", replay.trace.layers},
                                     {"experts", replay.trace.experts},
                                     {"prefill_passes", replay.facts.prefill_passes},
                                     {"decoded_tokens", replay.facts.decoded_tokens},
                                     {"cycle_slots", replay.facts.cycle_slots},
                                     {"sizes", nlohmann::ordered_json::array()}};
    const std::vector<std::string> names = column_names(flags);
    for (const Row &row : replay.rows) {
        nlohmann::ordered_json size = {{"slots", row.slots}};
        if (row.cache_mb) {
            size["cache_mb"] = *row.cache_mb;
        }
        for (size_t i = 0; i < names.size(); ++i) {
            const tools::ReplayCounts &counts = row.counts[i];
            size["policies"][names[i]] = {{"decode_hits", counts.decode_hits},
                                          {"decode_asks", counts.decode_asks},
                                          {"prefill_hits", counts.prefill_hits},
                                          {"prefill_asks", counts.prefill_asks}};
        }
        result["sizes"].push_back(std::move(size));
    }
    return result;
}

Status run_replay(const ReplayFlags &flags) {
    TextOutput output;
    auto all = nlohmann::ordered_json::array();
    for (size_t i = 0; i < flags.traces.size(); ++i) {
        const auto replay = replay_file(flags, flags.traces[i]);
        if (!replay) {
            return fail(replay.error());
        }
        if (flags.json) {
            all.push_back(as_json(flags, *replay));
        } else {
            output.write((i == 0 ? "" : "\n") + as_text(flags, *replay));
        }
    }
    if (flags.json) {
        // A path need not be UTF-8, but JSON must.
        output.write(all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    }
    return output.status();
}

std::string check_cycles(const std::string &text) {
    const double cycles = std::strtod(text.c_str(), nullptr);
    return cycles > 0 && cycles < 1e6 ? "" : "'" + text + "' is no number of cycles"; // nor is NaN
}

/// A list after one flag: N,... and not whatever arguments follow it.
CLI::Option *as_list(CLI::Option *option) {
    return option->delimiter(',')->allow_extra_args(false);
}

void add_flags(CLI::App &command, ReplayFlags &flags) {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    command.add_option("TRACE", flags.traces, "Routing traces, as --route-trace of sluice run writes them")
        ->required();
    CLI::Option *slots = as_list(command.add_option("--slots", flags.slots,
                                                    "Cache sizes in slots, each for one expert of one layer"))
                             ->check(CLI::Range(uint64_t{1}, kMost));
    CLI::Option *cache = as_list(command.add_option("--cache-mb", flags.cache_mb, "Cache sizes in MiB"))
                             ->check(CLI::Range(uint64_t{1}, kMost))
                             ->excludes(slots);
    CLI::Option *slice = command
                             .add_option("--slice-kb", flags.slice_kb,
                                         "KiB of one expert of one layer, all its slices together")
                             ->check(CLI::Range(uint64_t{1}, kMost));
    cache->needs(slice);
    slice->needs(cache);
    flags.cycles = {0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4};
    as_list(command.add_option("--cycles", flags.cycles,
                               "Cache sizes in cycles, the slots that one token uses in all layers"))
        ->check(check_cycles)
        ->excludes(slots)
        ->excludes(cache)
        ->capture_default_str();
    flags.policies = policy_names();
    as_list(command.add_option("--policy", flags.policies, "Policies to compare"))
        ->check(CLI::IsMember(policy_names()))
        ->capture_default_str();
    command.add_flag("--json", flags.json, "Print counts as JSON instead of a table of hit rates");
}

} // namespace

void add_replay_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(
        "replay",
        "Compare cache policies on routing traces: hit rates while decoding, and the best possible");
    auto flags = std::make_shared<ReplayFlags>();
    add_flags(*command, *flags);
    command->callback([flags, &exit_code] {
        const Status status = run_replay(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
