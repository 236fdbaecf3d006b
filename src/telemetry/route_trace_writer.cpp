#include "telemetry/route_trace.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <new>
#include <unistd.h>

namespace sluice::telemetry {

Result<std::unique_ptr<RouteTraceWriter>> RouteTraceWriter::create(const std::string &path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        const ErrorCode code = errno == ENOENT                     ? ErrorCode::NotFound
                               : errno == EACCES || errno == EPERM ? ErrorCode::PermissionDenied
                                                                   : ErrorCode::Io;
        return fail(code, fmt::format("cannot write the routing trace {}: {}", path, std::strerror(errno)));
    }
    return std::unique_ptr<RouteTraceWriter>(new RouteTraceWriter(path, file));
}

RouteTraceWriter::~RouteTraceWriter() {
    static_cast<void>(close());
}

void RouteTraceWriter::begin(uint32_t layers, uint32_t experts) {
    try {
        write(fmt::format("{} {}\n", layers, experts));
    } catch (const std::bad_alloc &) {
        error_ = ENOMEM;
    }
}

void RouteTraceWriter::routed(uint32_t layer, std::span<const uint32_t> experts, size_t per_token) {
    // In its last layers a prompt may go on with the only token whose output is wanted: it is prefill still.
    if (!last_layer_ || layer <= *last_layer_) {
        prefill_ = experts.size() > per_token;
    }
    last_layer_ = layer;
    try {
        for (size_t done = 0; done < experts.size() && error_ == 0; done += per_token) {
            line_.clear();
            fmt::format_to(std::back_inserter(line_), "{} {}", prefill_ ? 0 : 1, layer);
            for (const uint32_t expert : experts.subspan(done, per_token)) {
                fmt::format_to(std::back_inserter(line_), " {}", expert);
            }
            line_ += '\n';
            write(line_);
        }
    } catch (const std::bad_alloc &) {
        error_ = ENOMEM;
    }
}

/// One call a line: a killed process then has not written half of one.
void RouteTraceWriter::write(std::string_view line) {
    size_t done = 0;
    while (error_ == 0 && done < line.size()) {
        const ssize_t count = ::write(file_, line.data() + done, line.size() - done);
        if (count > 0) {
            done += static_cast<size_t>(count);
        } else if (count < 0 && errno != EINTR) {
            error_ = errno;
            // The disk filled up within a line: take its beginning back. (A pipe or device cannot, and need
            // not.)
            static_cast<void>(::ftruncate(file_, static_cast<off_t>(written_)) == 0);
        }
    }
    written_ += done;
}

Status RouteTraceWriter::status() const {
    if (const int error = error_; error != 0) {
        return fail(ErrorCode::Io,
                    fmt::format("cannot write the routing trace {}: {}", path_, std::strerror(error)));
    }
    return {};
}

Status RouteTraceWriter::close() {
    if (file_ >= 0 && ::close(file_) != 0 && error_ == 0) {
        error_ = errno;
    }
    file_ = -1;
    return status();
}

} // namespace sluice::telemetry
