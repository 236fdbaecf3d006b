// Probe results as JSON.
#include "storage/device_probe.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::storage {
namespace {

using Json = nlohmann::ordered_json;

/// Changes when old results would be misunderstood; those are then as good as none.
constexpr int format_number = 1;
/// No engine reads wider.
constexpr int largest_width = 1024;

const char *name_of(ReadEngineKind kind) {
    return kind == ReadEngineKind::Uring ? "io_uring" : "threads";
}

// What makes no sense is thrown as nlohmann's own error, like a member of a wrong type, and caught in
// from_json().
[[noreturn]] void refuse(const char *what) {
    throw Json::other_error::create(501, what, nullptr);
}

ReadEngineKind engine_from(const Json &json) {
    const auto name = json.get<std::string>();
    if (name != "io_uring" && name != "threads") {
        refuse("unknown engine");
    }
    return name == "io_uring" ? ReadEngineKind::Uring : ReadEngineKind::Threads;
}

int width_from(const Json &json) {
    const int width = json.get<int>();
    return width >= 1 && width <= largest_width ? width : (refuse("impossible width"), 0);
}

double rate_from(const Json &json) {
    const auto rate = json.get<double>();
    return std::isfinite(rate) && rate > 0 ? rate : (refuse("impossible rate"), 0);
}

Json optional_number(const std::optional<double> &number) {
    return number ? Json(*number) : Json();
}

std::optional<double> optional_from(const Json &json) {
    return json.is_null() ? std::nullopt : std::optional(rate_from(json));
}

Json curve_json(const ReadCurve &curve) {
    Json rates = Json::array();
    for (const ReadRate &rate : curve.rates) {
        Json entry = {{"width", rate.width}, {"mib_per_second", optional_number(rate.mib_per_second)}};
        if (!rate.mib_per_second) {
            entry["unmeasured"] = rate.unmeasured;
        }
        rates.push_back(std::move(entry));
    }
    return {{"engine", name_of(curve.engine)}, {"read_bytes", curve.read_bytes}, {"rates", std::move(rates)}};
}

ReadCurve curve_from(const Json &json) {
    ReadCurve curve = {.engine = engine_from(json.at("engine")),
                       .read_bytes = json.at("read_bytes").get<uint64_t>()};
    for (const Json &entry : json.at("rates")) {
        curve.rates.push_back({.width = width_from(entry.at("width")),
                               .mib_per_second = optional_from(entry.at("mib_per_second")),
                               .unmeasured = entry.value("unmeasured", "")});
    }
    return curve;
}

Json choice_json(const std::optional<ReadChoice> &choice) {
    return choice ? Json{{"engine", name_of(choice->engine)},
                         {"width", choice->width},
                         {"mib_per_second", choice->mib_per_second}}
                  : Json();
}

std::optional<ReadChoice> choice_from(const Json &json) {
    if (json.is_null()) {
        return std::nullopt;
    }
    return ReadChoice{.engine = engine_from(json.at("engine")),
                      .width = width_from(json.at("width")),
                      .mib_per_second = rate_from(json.at("mib_per_second"))};
}

Json machine_json(const MachineRates &machine) {
    Json json = {{"cores", machine.cores},
                 {"memory_gb_per_second",
                  {{"one_core", optional_number(machine.memory_one_core)},
                   {"all_cores", optional_number(machine.memory_all_cores)}}},
                 {"q4_K_gb_per_second",
                  {{"one_core", optional_number(machine.compute_one_core)},
                   {"all_cores", optional_number(machine.compute_all_cores)}}}};
    if (!machine.unmeasured.empty()) {
        json["unmeasured"] = machine.unmeasured;
    }
    return json;
}

MachineRates machine_from(const Json &json) {
    const Json &memory = json.at("memory_gb_per_second");
    const Json &compute = json.at("q4_K_gb_per_second");
    return {.cores = json.at("cores").get<int>(),
            .memory_one_core = optional_from(memory.at("one_core")),
            .memory_all_cores = optional_from(memory.at("all_cores")),
            .compute_one_core = optional_from(compute.at("one_core")),
            .compute_all_cores = optional_from(compute.at("all_cores")),
            .unmeasured = json.value("unmeasured", "")};
}

Json device_json(const DeviceIdentity &device) {
    return {{"number", device.number},
            {"file_system", device.file_system},
            {"source", device.source},
            {"model", device.model},
            {"serial", device.serial}};
}

DeviceIdentity device_from(const Json &json) {
    return {.number = json.at("number").get<std::string>(),
            .file_system = json.at("file_system").get<std::string>(),
            .source = json.at("source").get<std::string>(),
            .model = json.at("model").get<std::string>(),
            .serial = json.at("serial").get<std::string>()};
}

ProbeResult result_from(const Json &json) {
    if (json.at("format").get<int>() != format_number) {
        refuse("another format");
    }
    ProbeResult result = {.device = device_from(json.at("device")),
                          .engine_version = json.at("engine_version").get<std::string>(),
                          .date = json.at("date").get<std::string>(),
                          .direct = json.at("direct").get<bool>(),
                          .slice_bytes = json.at("slice_bytes").get<uint64_t>()};
    for (const Json &curve : json.at("curves")) {
        result.curves.push_back(curve_from(curve));
    }
    result.slices = choice_from(json.at("best").at("slices"));
    result.small = choice_from(json.at("best").at("small"));
    result.machine = machine_from(json.at("machine"));
    result.notes = json.at("notes").get<std::vector<std::string>>();
    return result;
}

} // namespace

std::string to_json(const ProbeResult &result) {
    Json curves = Json::array();
    for (const ReadCurve &curve : result.curves) {
        curves.push_back(curve_json(curve));
    }
    const Json json = {
        {"format", format_number},
        {"engine_version", result.engine_version},
        {"date", result.date},
        {"device", device_json(result.device)},
        {"direct", result.direct},
        {"slice_bytes", result.slice_bytes},
        {"small_bytes", small_read_bytes},
        {"best", {{"slices", choice_json(result.slices)}, {"small", choice_json(result.small)}}},
        {"curves", std::move(curves)},
        {"machine", machine_json(result.machine)},
        {"notes", result.notes}};
    // A path or a model's name need not be valid UTF-8.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ProbeResult> from_json(std::string_view text) {
    try {
        return result_from(Json::parse(text));
    } catch (const Json::exception &error) {
        return fail(ErrorCode::InvalidFormat, fmt::format("this is not a probe's result: {}", error.what()));
    }
}

} // namespace sluice::storage
