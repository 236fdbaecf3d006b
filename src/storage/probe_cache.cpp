// Keeping probe results, one file per device.
#include "storage/device_probe.h"
#include "storage/posix_calls.h"
#include "storage/text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

namespace sluice::storage {
namespace {

namespace fs = std::filesystem;

std::string environment(const char *name) {
    const char *value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return value != nullptr ? value : "";
}

/// The file for a device: what tells devices apart at a glance. The rest of the identity is checked on
/// reading.
std::string file_of(const DeviceIdentity &device, const std::string &directory) {
    std::string name = fmt::format("probe-{}-{}.json", device.number, device.file_system);
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '-');
    return directory + "/" + name;
}

Error write_error(const std::string &path, int number) {
    return {number == EACCES || number == EPERM || number == EROFS ? ErrorCode::PermissionDenied
                                                                   : ErrorCode::Io,
            fmt::format("cannot write {}: {}", path, errno_text(number))};
}

/// Writes all of `text` and sees it onto the device. Returns errno, or 0.
int write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno != EINTR) {
            return errno;
        }
        text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
    return ::fsync(fd) == 0 ? 0 : errno;
}

} // namespace

std::string probe_cache_directory() {
    // A relative path is to be ignored, says the specification of these variables.
    if (const std::string cache = environment("XDG_CACHE_HOME"); cache.starts_with('/')) {
        return cache + "/sluice";
    }
    const std::string home = environment("HOME");
    return home.empty() ? "" : home + "/.cache/sluice";
}

Result<std::string> save_probe(const ProbeResult &result, const std::string &directory) {
    if (directory.empty()) {
        return fail(ErrorCode::NotFound, "neither XDG_CACHE_HOME nor HOME says where results can be kept");
    }
    std::error_code made;
    fs::create_directories(directory, made);
    const std::string path = file_of(result.device, directory);
    std::string draft = path + ".XXXXXX";
    const Descriptor file(::mkostemp(draft.data(), O_CLOEXEC));
    if (!file.valid()) {
        return fail(write_error(path, errno));
    }
    int number = write_all(file.get(), to_json(result));
    if (number == 0 && ::rename(draft.c_str(), path.c_str()) != 0) {
        number = errno;
    }
    if (number != 0) {
        ::unlink(draft.c_str());
        return fail(write_error(path, number));
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
