#include "telemetry/line_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace sluice::telemetry {

namespace {

constexpr size_t kPendingBytes = size_t{64} << 10;

ErrorCode code_of(int number) {
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return ErrorCode::NotFound;
    case EACCES:
    case EPERM:
    case EROFS:
        return ErrorCode::PermissionDenied;
    default:
        return ErrorCode::Io;
    }
}

} // namespace

Result<std::unique_ptr<LineFile>> LineFile::create(const std::string &path) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
    const int number = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (number < 0) {
        return fail(code_of(errno), fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
    return std::unique_ptr<LineFile>(new LineFile(number, true, path));
}

Result<std::unique_ptr<LineFile>> LineFile::on_descriptor(int number) {
    const int mode = ::fcntl(number, F_GETFL); // NOLINT(cppcoreguidelines-pro-type-vararg)
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("file descriptor {} is not open for writing", number));
    }
    return std::unique_ptr<LineFile>(new LineFile(number, false, fmt::format("file descriptor {}", number)));
}

LineFile::~LineFile() {
    flush();
    if (owned_) {
        ::close(number_);
    }
}

void LineFile::add(std::string_view lines) {
    pending_ += lines;
    if (pending_.size() >= kPendingBytes) {
        flush();
    }
}

void LineFile::flush() {
    size_t done = 0;
    while (error_ == 0 && done < pending_.size()) {
        const ssize_t count = ::write(number_, pending_.data() + done, pending_.size() - done);
        if (count >= 0) {
            done += static_cast<size_t>(count);
        } else if (errno != EINTR) {
            error_ = errno;
        }
    }
    pending_.clear();
}

Status LineFile::status() const {
    if (error_ == 0) {
        return {};
    }
    return fail(ErrorCode::Io, fmt::format("cannot write {}: {}", name_, std::strerror(error_)));
}

} // namespace sluice::telemetry
