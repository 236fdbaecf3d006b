#include "text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <system_error>

#include <unistd.h>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

using File = std::unique_ptr<std::FILE, decltype([](std::FILE *file) { std::fclose(file); })>;

/// Writes all of it and waits until it is on the device. Returns errno of the first failure, or 0.
int write_through(const std::string &path, std::string_view text) {
    File file(std::fopen(path.c_str(), "wb"));
    if (!file) {
        return errno;
    }
    if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0 ||
        ::fsync(::fileno(file.get())) != 0) {
        return errno;
    }
    return std::fclose(file.release()) != 0 ? errno : 0; // some file systems tell of a full disk only now
}

} // namespace

Result<std::string> read_text_file(const std::string &path, size_t most) {
    const File file(std::fopen(path.c_str(), "rb"));
    if (!file) {
        return fail(ErrorCode::NotFound, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    }
    std::string text;
    char part[16384];
    while (const size_t count = std::fread(part, 1, sizeof(part), file.get())) {
        text.append(part, count);
        if (text.size() > most) {
            return fail(
                ErrorCode::InvalidFormat,
                fmt::format("{} has more than {} MiB, the most that is read here", path, most >> 20U));
        }
    }
    if (std::ferror(file.get()) != 0) {
        return fail(ErrorCode::Io, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
    return text;
}

Status check_output(const std::string &path, const std::vector<std::string> &inputs) {
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
        return fail(ErrorCode::InvalidArgument, fmt::format("{} is a directory", path));
    }
    // The finished file is renamed to its place: a device, a pipe or a link there would be replaced, not
    // written.
    const fs::file_status status = fs::symlink_status(path, unknown);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
        return fail(ErrorCode::InvalidArgument, fmt::format("{} exists and is not a regular file", path));
    }
    for (const std::string &input : inputs) {
        if (fs::equivalent(path, input, unknown)) {
            return fail(ErrorCode::InvalidArgument, fmt::format("{} would be written over itself", input));
        }
    }
    return {};
}

Status write_text_file(const std::string &path, std::string_view text) {
    const std::string partial = path + ".partial";
    const int error = write_through(partial, text);
    std::error_code failure(error, std::generic_category());
    if (!failure) {
        fs::rename(partial, path, failure);
    }
    if (failure) {
        std::error_code ignored;
        fs::remove(partial, ignored);
        return fail(ErrorCode::Io, fmt::format("cannot write {}: {}", path, failure.message()));
    }
    return {};
}

} // namespace sluice::cli
