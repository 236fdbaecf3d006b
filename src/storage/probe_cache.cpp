// Keeping probe results, one file per device.
#include "storage/device_probe.h"
#include "storage/text.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace sluice::storage {
namespace {

/// The file for a device: what tells devices apart at a glance. The rest of the identity is checked on
/// reading.
std::string file_of(const DeviceIdentity &device, const std::string &directory) {
    std::string name = fmt::format("probe-{}-{}.json", device.number, device.file_system);
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '-');
    return directory + "/" + name;
}

} // namespace

Result<std::string> save_probe(const ProbeResult &result, const std::string &directory) {
    if (directory.empty()) {
        return fail(ErrorCode::NotFound, "neither XDG_CACHE_HOME nor HOME says where results can be kept");
    }
    const std::string path = file_of(result.device, directory);
    if (Status written = replace_file(path, to_json(result), Durability::SurvivesPowerLoss); !written) {
        return fail(written.error());
    }
    return path;
}

std::optional<ProbeResult> load_probe(const std::string &path, const std::string &directory) {
    const Result<DeviceIdentity> device = identify_device(path);
    if (!device || directory.empty()) {
        return std::nullopt;
    }
    const std::optional<std::string> text = read_text(file_of(*device, directory));
    if (!text) {
        return std::nullopt;
    }
    Result<ProbeResult> result = from_json(*text);
    if (!result || result->device != *device) {
        return std::nullopt;
    }
    return std::move(*result);
}

} // namespace sluice::storage
