#include "platform/user_cache.h"

#include "platform/posix_calls.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>

namespace sluice::platform {

namespace {

std::string environment(const char *name) {
    const char *value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return value != nullptr ? value : "";
}

Error write_error(const std::string &path, int number) {
    return {number == EACCES || number == EPERM || number == EROFS ? ErrorCode::PermissionDenied
                                                                   : ErrorCode::Io,
            fmt::format("cannot write {}: {}", path, errno_text(number))};
}

/// Returns errno, or 0.
int write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno != EINTR) {
            return errno;
        }
        text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
    return 0;
}

} // namespace

std::string user_cache_directory() {
    // A relative path is to be ignored, says the specification of these variables.
    if (const std::string cache = environment("XDG_CACHE_HOME"); cache.starts_with('/')) {
        return cache + "/sluice";
    }
    const std::string home = environment("HOME");
    return home.empty() ? "" : home + "/.cache/sluice";
}

Status replace_file(const std::string &path, std::string_view text, Durability durability) {
    std::error_code made;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), made);
    std::string draft = path + ".XXXXXX";
    const Descriptor file(::mkostemp(draft.data(), O_CLOEXEC));
    if (!file.valid()) {
        return fail(write_error(path, errno));
    }
    int number = write_all(file.get(), text);
    if (number == 0 && durability == Durability::SurvivesPowerLoss && ::fsync(file.get()) != 0) {
        number = errno;
    }
    if (number == 0 && std::rename(draft.c_str(), path.c_str()) != 0) {
        number = errno;
    }
    if (number != 0) {
        ::unlink(draft.c_str());
        return fail(write_error(path, number));
    }
    return {};
}

} // namespace sluice::platform
