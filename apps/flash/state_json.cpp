#include "state_json.h"

#include "platform/memory_facts.h"
#include "words.h"

#include <cmath>
#include <filesystem>

namespace sluice::flash {

namespace {

using Json = nlohmann::ordered_json;
using Models = std::vector<std::shared_ptr<IFlashModel>>;

constexpr int kVersion = 1; ///< of the contract; members may be added to it

template <typename T>
Json or_null(const std::optional<T> &value) {
    return value ? Json(*value) : Json(nullptr);
}

/// Milliseconds to a microsecond: more digits would be noise.
double milliseconds(double value) {
    return std::round(value * 1e3) / 1e3;
}

void put_counts(const Counts &counts, Json &json) {
    for (const CountField &field : kCountFields) {
        const uint64_t value = counts.*field.value;
        const std::string name(field.name);
        if (field.is_time) {
            json[name + "_ms"] = milliseconds(static_cast<double>(value) * 1e-6);
        } else {
            json[name] = value;
        }
    }
}

Json sample_json(const Sample &sample) {
    Json json = {{"time_ms", sample.time_ms}, {"interval_ms", milliseconds(sample.interval_ms)}};
    put_counts(sample.counts, json);
    json["resident_bytes"] = or_null(sample.resident_bytes);
    json["cache_held_bytes"] = sample.cache_held_bytes;
    return json;
}

Json memory_json(const StartFacts &start) {
    const platform::ProcessMemory process = platform::read_process_memory();
    return {{"resident_bytes", or_null(process.resident)},
            {"peak_bytes", or_null(process.peak_resident)},
            {"ceiling_bytes", or_null(start.ceiling_bytes)},
            {"ceiling_source", start.ceiling_source},
            {"available_bytes", or_null(platform::usable_memory(platform::read_memory_facts()))}};
}

Json rows_json(const ModelFacts &facts) {
    Json tables = Json::array();
    for (const RowTableInfo &table : facts.tables) {
        tables.push_back({{"name", table.name},
                          {"bytes", table.bytes},
                          {"streamed", table.streamed},
                          {"reason", table.reason}});
    }
    const RowStats &rows = facts.rows;
    return {{"on", facts.options.row_stream},
            {"table_bytes", rows.table_bytes},
            {"resident_bytes", rows.resident_bytes},
            {"window_bytes", facts.options.row_window_bytes},
            {"rows", rows.rows},
            {"reads", rows.reads},
            {"read_bytes", rows.bytes_read},
            {"evictions", rows.evictions},
            {"read_errors", rows.read_errors},
            {"tables", std::move(tables)}};
}

Json settled_json(const std::vector<SettledSetting> &settled) {
    Json list = Json::array();
    for (const SettledSetting &setting : settled) {
        list.push_back({{"name", setting.name}, {"choice", setting.choice}, {"why", setting.why}});
    }
    return list;
}

Json heat_json(const std::vector<LayerHeat> &heat) {
    Json layers = Json::array();
    for (const LayerHeat &layer : heat) {
        layers.push_back({{"experts", layer.experts},
                          {"cached", layer.cached},
                          {"used", layer.used},
                          {"cells", layer.cells}});
    }
    return {{"half_life_ms", kHeatHalfLife.count()}, {"layers", std::move(layers)}};
}

Json totals_json(const IFlashModel &model, const ExpertStats &experts) {
    Json json = Json::object();
    put_counts(model.counts(), json);
    json["read_errors"] = experts.read_errors;
    json["buffered_fallbacks"] = experts.buffered_fallbacks;
    json["dropped_experts"] = experts.dropped_experts;
    json["substituted_experts"] = experts.substituted_experts;
    return json;
}

std::string file_name(const std::string &path) {
    return std::filesystem::path(path).filename().string();
}

Json model_json(const StartFacts &start, const Watched &watched, const std::set<std::string> &changed) {
    const ModelFacts facts = watched.model->facts();
    const ModelOptions &options = facts.options;
    return {{"id", watched.model->id()},
            {"name", file_name(options.path)},
            {"path", options.path},
            {"mode", "streaming"},
            {"mode_reason", options.mode_reason},
            {"lossy", options.lossy.flags()},
            {"file_bytes", facts.file_bytes},
            {"streamed_bytes", facts.streamed_bytes},
            {"last_error", facts.last_error ? Json(facts.last_error->message) : Json(nullptr)},
            {"dense",
             {{"mode", word_of(options.dense_weights)},
              {"bytes", facts.dense_bytes},
              {"mapped_bytes", facts.mapped_bytes},
              {"resident", or_null(watched.dense.resident)},
              {"swapped", or_null(watched.dense.swapped)}}},
            {"rows", rows_json(facts)},
            {"cache",
             {{"policy", word_of(options.cache_policy)},
              {"limit_bytes", facts.cache.limit},
              {"capacity_bytes", facts.cache.capacity},
              {"held_bytes", facts.cache.held},
              {"minimum_bytes", facts.cache.minimum},
              {"working_set_bytes", facts.experts.token_working_set_bytes}}},
            {"settled", settled_json(facts.settled)},
            {"tokens_tried", facts.tokens_tried},
            {"totals", totals_json(*watched.model, facts.experts)},
            {"heat", heat_json(watched.heat)},
            {"sample", sample_json(watched.newest)},
            {"settings", settings_json(start, facts, changed)}};
}

/// As the text format wants it between quotes.
std::string label(const std::string &text) {
    std::string quoted;
    for (const char letter : text) {
        quoted += letter == '\\'   ? "\\\\"
                  : letter == '"'  ? "\\\""
                  : letter == '\n' ? "\\n"
                                   : std::string(1, letter);
    }
    return quoted;
}

/// One metric of every model.
template <typename Value>
void add_metric(const std::string &name, const char *type, const Models &models, Value value,
                std::string &text) {
    text += "# TYPE sluice_" + name + " " + type + "\n";
    for (const auto &model : models) {
        text += "sluice_" + name + "{model=\"" + label(file_name(model->facts().options.path)) + "\",id=\"" +
                std::to_string(model->id()) + "\"} " + Json(value(*model)).dump() + "\n";
    }
}

} // namespace

nlohmann::ordered_json state_json(const StartFacts &start, std::chrono::milliseconds uptime,
                                  const std::vector<Watched> &models, const ChangedSettings &changed,
                                  bool with_history) {
    using namespace std::chrono;
    Json list = Json::array();
    for (const Watched &watched : models) {
        const auto known = changed.find(watched.model->id());
        Json model =
            model_json(start, watched, known == changed.end() ? std::set<std::string>() : known->second);
        if (with_history) {
            Json history = Json::array();
            for (const Sample &sample : watched.history) {
                history.push_back(sample_json(sample));
            }
            model["history"] = std::move(history);
        }
        list.push_back(std::move(model));
    }
    return {
        {"v", kVersion},
        {"version", start.version},
        {"time_ms", duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count()},
        {"uptime_ms", uptime.count()},
        {"arguments", without_secrets(start.arguments)},
        {"router", start.router},
        {"memory", memory_json(start)},
        {"models", std::move(list)}};
}

std::string metrics_text(const Models &models) {
    std::string text;
    for (const CountField &field : kCountFields) {
        const std::string name = std::string(field.name) + (field.is_time ? "_seconds_total" : "_total");
        add_metric(
            name, "counter", models,
            [&field](const IFlashModel &model) {
                const uint64_t value = model.counts().*field.value;
                return field.is_time ? Json(static_cast<double>(value) * 1e-9) : Json(value);
            },
            text);
    }
    add_metric(
        "read_errors_total", "counter", models,
        [](const IFlashModel &model) { return model.facts().experts.read_errors; }, text);
    add_metric(
        "cache_limit_bytes", "gauge", models,
        [](const IFlashModel &model) { return model.facts().cache.limit; }, text);
    add_metric(
        "cache_held_bytes", "gauge", models,
        [](const IFlashModel &model) { return model.cache_held_bytes(); }, text);
    if (const auto resident = platform::read_process_memory().resident) {
        text +=
            "# TYPE sluice_resident_bytes gauge\nsluice_resident_bytes " + std::to_string(*resident) + "\n";
    }
    return text;
}

} // namespace sluice::flash
