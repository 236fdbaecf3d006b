#include "telemetry/csv_writer.h"

#include <fmt/format.h>
#include <iterator>
#include <optional>

namespace sluice::telemetry {

namespace {

double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

std::string milliseconds(double seconds) {
    return fmt::format("{:.4f}", seconds * 1e3);
}

std::string whole(uint64_t number) {
    return std::to_string(number);
}

std::string mebibyte_text(uint64_t bytes) {
    return fmt::format("{:.2f}", mebibytes(bytes));
}

/// Empty for what could not be measured.
template <typename T, typename Format>
std::string text_of(const std::optional<T> &value, Format format) {
    return value ? format(*value) : std::string();
}

/// A column: its name, its text in a row, and whether its sum means something.
struct Column {
    const char *name;
    std::string (*text)(const TokenSample &);
    bool summed = true;
};

constexpr Column kColumns[] = {
    {"token", [](const TokenSample &s) { return whole(s.computed); }, false},
    {"phase",
     [](const TokenSample &s) { return std::string(s.phase == Phase::Prefill ? "prefill" : "decode"); },
     false},
    {"batch_tokens", [](const TokenSample &s) { return whole(s.batch_tokens); }},
    {"wall_ms", [](const TokenSample &s) { return milliseconds(s.time.wall); }},
    {"compute_ms", [](const TokenSample &s) { return milliseconds(s.time.compute); }},
    {"expert_wait_ms", [](const TokenSample &s) { return milliseconds(s.time.expert_wait); }},
    {"row_wait_ms", [](const TokenSample &s) { return milliseconds(s.time.row_wait); }},
    {"cache_ms", [](const TokenSample &s) { return milliseconds(s.time.cache); }},
    {"sampling_ms", [](const TokenSample &s) { return milliseconds(s.time.between); }},
    {"other_ms", [](const TokenSample &s) { return milliseconds(s.time.other()); }},
    {"expert_reads", [](const TokenSample &s) { return whole(s.expert_reads); }},
    {"expert_read_bytes", [](const TokenSample &s) { return whole(s.expert_read_bytes); }},
    {"row_reads", [](const TokenSample &s) { return whole(s.row_reads); }},
    {"row_read_bytes", [](const TokenSample &s) { return whole(s.row_read_bytes); }},
    {"speculative_reads", [](const TokenSample &s) { return whole(s.speculative_reads); }},
    {"speculative_read_bytes", [](const TokenSample &s) { return whole(s.speculative_read_bytes); }},
    {"hits", [](const TokenSample &s) { return whole(s.hits); }},
    {"misses", [](const TokenSample &s) { return whole(s.misses); }},
    {"evictions", [](const TokenSample &s) { return whole(s.evictions); }},
    {"major_faults", [](const TokenSample &s) { return text_of(s.major_faults, whole); }},
    {"minor_faults", [](const TokenSample &s) { return text_of(s.minor_faults, whole); }},
    {"swap_ins", [](const TokenSample &s) { return text_of(s.swap_ins, whole); }},
    {"cpu_ms", [](const TokenSample &s) { return text_of(s.cpu_seconds, milliseconds); }},
    {"device_busy_ms", [](const TokenSample &s) { return milliseconds(s.device_busy); }},
    {"device_mib_per_s",
     [](const TokenSample &s) {
         return s.device_busy > 0 ? fmt::format("{:.1f}", mebibytes(s.device_bytes) / s.device_busy)
                                  : std::string();
     },
     false},
    {"resident_mib", [](const TokenSample &s) { return text_of(s.resident_bytes, mebibyte_text); }, false},
};

/// A sum of which one part could not be measured can't be told either.
template <typename T>
void add_measured(std::optional<T> &sum, const std::optional<T> &more) {
    sum = sum && more ? std::optional<T>(*sum + *more) : std::nullopt;
}

void add(TokenSample &sum, const TokenSample &more) {
    sum.time += more.time;
    sum.batch_tokens += more.batch_tokens;
    using Sample = TokenSample;
    for (const auto field : {&Sample::expert_reads, &Sample::expert_read_bytes, &Sample::speculative_reads,
                             &Sample::speculative_read_bytes, &Sample::row_reads, &Sample::row_read_bytes,
                             &Sample::hits, &Sample::misses, &Sample::evictions, &Sample::device_bytes}) {
        sum.*field += more.*field;
    }
    sum.device_busy += more.device_busy;
    add_measured(sum.major_faults, more.major_faults);
    add_measured(sum.minor_faults, more.minor_faults);
    add_measured(sum.swap_ins, more.swap_ins);
    add_measured(sum.cpu_seconds, more.cpu_seconds);
}

Facts stats_facts(const ModelInfo &model, const RunStats &stats) {
    const uint64_t asked = stats.generate_hits + stats.generate_misses;
    const std::string hit_rate =
        asked > 0
            ? fmt::format("{:.4f}", static_cast<double>(stats.generate_hits) / static_cast<double>(asked))
            : "";
    const auto seconds = [](double value) { return fmt::format("{:.3f}", value); };
    return {
        {"prompt_tokens", whole(stats.prompt_tokens)},
        {"prompt_seconds", seconds(stats.prompt_seconds)},
        {"tokens", whole(stats.generated_tokens)},
        {"seconds", seconds(stats.generate_seconds)},
        {"load_seconds", seconds(model.load_seconds)},
        {"peak_resident_MiB", text_of(stats.peak_resident_bytes, mebibyte_text)},
        {"dense_MiB", mebibyte_text(stats.dense_bytes)},
        {"context_MiB", mebibyte_text(stats.context_bytes)},
        {"compute_MiB", mebibyte_text(stats.compute_bytes)},
        {"cache_MiB", mebibyte_text(stats.experts.cache_bytes)},
        {"cache_slots", whole(stats.experts.slots)},
        {"hit_rate", hit_rate},
        {"evictions", whole(stats.experts.evictions)},
        {"read_errors", whole(stats.experts.read_errors)},
        {"buffered_fallbacks", whole(stats.experts.buffered_fallbacks)},
        {"lookahead_experts", whole(stats.experts.lookahead.experts)},
        {"lookahead_right", whole(stats.experts.lookahead.right)},
        {"lookahead_reads", whole(stats.experts.lookahead.reads)},
        {"lookahead_used", whole(stats.experts.lookahead.used)},
        {"hot_set_reads", whole(stats.experts.warm_start.reads)},
        {"hot_set_used", whole(stats.experts.warm_start.used)},
        {"row_table_MiB", mebibyte_text(stats.rows.table_bytes)},
        {"row_resident_MiB", mebibyte_text(stats.rows.resident_bytes)},
        {"row_rows", whole(stats.rows.rows)},
        {"row_reads", whole(stats.rows.reads)},
        {"row_read_MiB", mebibyte_text(stats.rows.bytes_read)},
        {"row_evictions", whole(stats.rows.evictions)},
        {"row_io_errors", whole(stats.rows.read_errors)},
    };
}

} // namespace

std::string outcome_of(const Status &status) {
    if (status) {
        return "complete";
    }
    return status.error().code == ErrorCode::Cancelled ? "interrupted" : "failed: " + status.error().message;
}

std::string fact_line(std::string_view name, std::string_view value) {
    std::string line = fmt::format("# {}:{}{}", name, value.empty() ? "" : " ", value);
    for (char &letter : line) {
        letter = static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    return line + '\n';
}

Result<std::unique_ptr<CsvWriter>> CsvWriter::create(const std::string &path, std::string_view version) {
    auto file = LineFile::create(path);
    if (!file) {
        return fail(file.error());
    }
    std::unique_ptr<CsvWriter> writer(new CsvWriter(std::move(*file)));
    writer->file_->add(fmt::format("# sluice {}\n", version));
    writer->totals_.major_faults = writer->totals_.minor_faults = writer->totals_.swap_ins = 0;
    writer->totals_.cpu_seconds = 0;
    return writer;
}

void CsvWriter::add_facts(const Facts &facts) {
    for (const auto &[name, value] : facts) {
        file_->add(fact_line(name, value));
    }
    file_->flush();
}

void CsvWriter::add_header() {
    if (has_header_) {
        return;
    }
    has_header_ = true;
    std::string line;
    for (const Column &column : kColumns) {
        line += column.name;
        line += &column + 1 == std::end(kColumns) ? '\n' : ',';
    }
    file_->add(line);
}

void CsvWriter::add_row(const TokenSample &sample) {
    add_header();
    std::string line;
    for (const Column &column : kColumns) {
        line += column.text(sample);
        line += &column + 1 == std::end(kColumns) ? '\n' : ',';
    }
    file_->add(line);
    file_->flush();
    add(totals_, sample);
    ++rows_;
}

void CsvWriter::add_summary(const ModelInfo *model, const RunStats *stats) {
    add_header();
    file_->add("# summary\n");
    file_->add(fact_line("rows", whole(rows_)));
    for (const Column &column : kColumns) {
        if (column.summed) {
            file_->add(fact_line(std::string("total_") + column.name, column.text(totals_)));
        }
    }
    if (model != nullptr && stats != nullptr) {
        add_facts(stats_facts(*model, *stats));
    }
}

void CsvWriter::end(const Status &outcome) {
    add_header();
    file_->add(fact_line("end", outcome_of(outcome)));
    file_->flush();
}

} // namespace sluice::telemetry
