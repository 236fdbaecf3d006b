#include "telemetry/summary.h"

#include <fmt/format.h>

namespace sluice::telemetry {

namespace {

double rate(uint64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

std::string tokens_line(const char *what, uint64_t tokens, double seconds) {
    return fmt::format("{}: {} tokens in {:.2f} s, {:.1f} tokens/s", what, tokens, seconds,
                       rate(tokens, seconds));
}

void add_streaming(const RunStats &stats, std::vector<std::string> &lines) {
    const ExpertStats &experts = stats.experts;
    if (experts.graphs == 0) {
        return;
    }
    const uint64_t asked = stats.generate_hits + stats.generate_misses;
    std::string stream = fmt::format("moe-stream: {} read in all", human_bytes(experts.bytes_read));
    if (stats.generated_tokens > 0) {
        stream += fmt::format(", {} per generated token",
                              human_bytes(stats.generate_bytes_read / stats.generated_tokens));
    }
    const double seconds = stats.prompt_seconds + stats.generate_seconds;
    if (seconds > 0) {
        stream += fmt::format(", {:.1f} % of the time spent waiting for storage",
                              100.0 * experts.stall_seconds / seconds);
    }
    lines.push_back(stream);
    std::string cache =
        fmt::format("moe-cache: {} in {} slots", human_bytes(experts.cache_bytes), experts.slots);
    if (asked > 0) {
        cache += fmt::format(", {:.1f} % hits while generating",
                             100.0 * static_cast<double>(stats.generate_hits) / static_cast<double>(asked));
    }
    cache += fmt::format(", {} evictions; one token touches {}", experts.evictions,
                         human_bytes(experts.token_working_set_bytes));
    if (experts.cache_bytes < experts.token_working_set_bytes) {
        cache += ", more than the cache holds";
    }
    lines.push_back(cache);
    if (experts.repacked > 0) {
        lines.push_back(fmt::format("moe-repack: {} slices given the layout of faster kernels, {:.2f} s of "
                                    "processor time",
                                    experts.repacked, experts.repack_seconds));
    }
    if (experts.buffered_fallbacks > 0 || experts.read_errors > 0) {
        lines.push_back(
            fmt::format("moe-stream: {} direct reads had to be finished through the page cache, {} "
                        "reads failed",
                        experts.buffered_fallbacks, experts.read_errors));
    }
    if (experts.materialized > 0) {
        lines.push_back(
            fmt::format("moe-stream: {} weights were brought into memory whole", experts.materialized));
    }
}

/// Always MiB: the line is read by programs too.
double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

void add_guesses(const ExpertStats &experts, std::vector<std::string> &lines) {
    const LookaheadStats &look = experts.lookahead;
    if (look.experts > 0) {
        lines.push_back(
            fmt::format("moe-lookahead: {}; {} experts guessed, {:.1f} % right; {} slices ({}) read "
                        "ahead, {} used, {} of "
                        "them late",
                        look.on ? "on" : "off", look.experts,
                        100.0 * static_cast<double>(look.right) / static_cast<double>(look.experts),
                        look.reads, human_bytes(look.bytes), look.used, look.late));
    }
    if (experts.warm_start.reads > 0) {
        lines.push_back(fmt::format("moe-hot-set: {} slices ({}) of the last run's read ahead, {} used",
                                    experts.warm_start.reads, human_bytes(experts.warm_start.bytes),
                                    experts.warm_start.used));
    }
}

void add_settled(const RunStats &stats, std::vector<std::string> &lines) {
    if (stats.settled.empty()) {
        return;
    }
    std::string line;
    for (const SettledSetting &setting : stats.settled) {
        line += fmt::format("{}{}: {} ({})", line.empty() ? "settled: " : "; ", setting.name, setting.choice,
                            setting.why);
    }
    lines.push_back(fmt::format("{}; {} tokens tried", line, stats.tokens_tried));
}

void add_lossy(const ModelInfo &model, const ExpertStats &experts, std::vector<std::string> &lines) {
    if (!model.lossy.empty()) {
        lines.push_back(
            fmt::format("lossy: {}: the text may differ from the model's; {} experts left out, {} "
                        "replaced",
                        model.lossy, experts.dropped_experts, experts.substituted_experts));
    }
}

void add_rows(const RowStats &rows, std::vector<std::string> &lines) {
    if (rows.table_bytes == 0) {
        return;
    }
    lines.push_back(
        fmt::format("moe-rows: {:.1f} MiB of tables off the resident set, {:.1f} MiB resident now, "
                    "{} rows, {} reads, {:.1f} MiB read",
                    mebibytes(rows.table_bytes), mebibytes(rows.resident_bytes), rows.rows, rows.reads,
                    mebibytes(rows.bytes_read)));
    if (rows.read_errors > 0) {
        lines.push_back(fmt::format("moe-rows: {} reads failed", rows.read_errors));
    }
}

std::string index_kind(const RowTableInfo &table) {
    if (table.index_is_input && table.index_is_computed) {
        return "indices are inputs of the graph and computed in it";
    }
    if (table.index_is_computed) {
        return "indices are computed in the graph";
    }
    return table.index_is_input ? "indices are an input of the graph" : "no graph has gathered from it yet";
}

} // namespace

std::vector<std::string> row_table_lines(const std::vector<RowTableInfo> &tables) {
    std::vector<std::string> lines;
    bool any = false;
    for (const RowTableInfo &table : tables) {
        any = any || table.streamed;
        lines.push_back(table.streamed ? fmt::format("rows: {} ({}) stays on storage; {}", table.name,
                                                     human_bytes(table.bytes), index_kind(table))
                                       : fmt::format("rows: {} ({}) is not off the resident set, because {}",
                                                     table.name, human_bytes(table.bytes), table.reason));
    }
    if (tables.empty()) {
        lines.emplace_back("rows: --row-stream has nothing to do: the model gathers rows from no weight");
    } else if (!any) {
        lines.emplace_back("rows: --row-stream has nothing to do: no table qualifies");
    }
    return lines;
}

std::string human_bytes(uint64_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (bytes < uint64_t{1} << 20) {
        return fmt::format("{:.0f} KiB", value / 1024.0);
    }
    if (bytes < uint64_t{10} << 30) {
        return fmt::format("{:.1f} MiB", value / (1024.0 * 1024.0));
    }
    return fmt::format("{:.1f} GiB", value / (1024.0 * 1024.0 * 1024.0));
}

std::string mode_line(const ModelInfo &model) {
    if (!model.streaming) {
        return fmt::format("mode: resident, because {}", model.mode_reason);
    }
    if (model.expert_banks == 0 && model.row_table_bytes > 0) {
        return fmt::format("mode: streaming rows ({}): the model has no routed experts; {} of tables stay on "
                           "storage, {} of dense weights are in memory",
                           model.mode_reason, human_bytes(model.row_table_bytes),
                           human_bytes(model.dense_bytes));
    }
    if (model.expert_banks == 0) {
        return fmt::format(
            "mode: streaming ({}), but the model has no routed experts: all of it is in memory",
            model.mode_reason);
    }
    std::string line =
        fmt::format("mode: streaming experts ({}): {} stay on storage, {} of dense weights are in memory",
                    model.mode_reason, human_bytes(model.streamed_bytes), human_bytes(model.dense_bytes));
    if (model.row_table_bytes > 0) {
        line += fmt::format(", and {} of row tables stay on storage too", human_bytes(model.row_table_bytes));
    }
    if (model.mapped_bytes > 0) {
        line += fmt::format(", {} of them mapped from the file", human_bytes(model.mapped_bytes));
    }
    if (!model.direct_refusal.empty()) {
        line += fmt::format("; reads go through the page cache: {}", model.direct_refusal);
    } else if (!model.direct) {
        line += "; reads go through the page cache, as asked";
    }
    return line;
}

std::vector<std::string> summary_lines(const ModelInfo &model, const RunStats &stats,
                                       const DenseResidency &dense) {
    std::vector<std::string> lines;
    lines.push_back(tokens_line("generation", stats.generated_tokens, stats.generate_seconds));
    lines.push_back(tokens_line("prefill", stats.prompt_tokens, stats.prompt_seconds));
    add_streaming(stats, lines);
    add_guesses(stats.experts, lines);
    add_settled(stats, lines);
    add_lossy(model, stats.experts, lines);
    add_rows(stats.rows, lines);
    const auto percent = [](std::optional<double> share) {
        return share ? fmt::format("{:.0f} %", 100.0 * *share) : "unmeasured";
    };
    lines.push_back(
        fmt::format("memory: peak {} for a model of {} (dense {}, context {}, compute {}); loaded in {:.2f} "
                    "s; dense weights: "
                    "resident {}, in swap {}",
                    stats.peak_resident_bytes ? human_bytes(*stats.peak_resident_bytes) : "unmeasured",
                    human_bytes(model.file_bytes), human_bytes(stats.dense_bytes),
                    human_bytes(stats.context_bytes), human_bytes(stats.compute_bytes), model.load_seconds,
                    percent(dense.resident), percent(dense.swapped)));
    if (const TimeParts &time = stats.generate_time; time.wall > 0) {
        const auto share = [&time](double part) { return 100.0 * part / time.wall; };
        lines.push_back(
            fmt::format("compute: {:.1f} % computing, {:.1f} % waiting for experts, {:.1f} % waiting "
                        "for rows, {:.1f} % cache, {:.1f} % between tokens, {:.1f} % other",
                        share(time.compute), share(time.expert_wait), share(time.row_wait), share(time.cache),
                        share(time.between), share(time.other())));
    }
    return lines;
}

} // namespace sluice::telemetry
