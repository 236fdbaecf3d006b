#include "output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

#ifndef _WIN32
#include <fcntl.h>
#endif

namespace sluice::cli {

bool TextOutput::write(std::string_view text) {
    errno = 0;
    const bool whole =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!whole && error_ == 0) {
        error_ = errno != 0 ? errno : EIO;
    }
    return error_ == 0;
}

Status TextOutput::status() const {
    if (error_ == 0) {
        return {};
    }
    return fail(ErrorCode::Io, fmt::format("cannot write to standard output: {}", std::strerror(error_)));
}

void prepare_standard_streams() {
#ifndef _WIN32
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    for (int stream = 0; stream <= 2; ++stream) {
        if (fcntl(stream, F_GETFD) == -1 && errno == EBADF) {
            // The lowest free number is this one. The wrong way round, so that using it goes on failing.
            open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY); // NOLINT: stays open on purpose
        }
    }
#endif
}

} // namespace sluice::cli
