// The one error type of Sluice, and the result type that carries it.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace sluice {

/// What kind of thing went wrong. Callers branch on this, people read `Error::message`.
enum class ErrorCode {
    InvalidArgument,  ///< the caller asked for something that cannot be (a usage error in the CLI)
    NotFound,         ///< a file, shard or tensor that should be there is not
    PermissionDenied, ///< the system refused access
    InvalidFormat,    ///< a file is there but is not what it should be, or is cut short
    Io,               ///< the device or the kernel failed a read, write or map
    OutOfMemory,      ///< an allocation or a reservation was refused, or a budget is too small
    Unsupported,      ///< this build, system or model cannot do it
    Cancelled,        ///< the caller asked for the work to stop
    Internal,         ///< an invariant of Sluice or llama.cpp broke
};

/// An expected failure: a code to branch on and one clear sentence to show.
/// A plain value; copying it is safe from any thread.
struct Error {
    ErrorCode code = ErrorCode::Internal;
    std::string message; ///< one sentence, no trailing newline, names the file or flag concerned

    /// The same error with what was being done put before it: "context: message".
    [[nodiscard]] Error with_context(std::string_view context) const {
        return Error{code, std::string(context) + ": " + message};
    }
};

/// Either a value or an Error. Sluice's functions do not throw across their public interface.
template <typename T>
using Result = tl::expected<T, Error>;

/// A Result without a value.
using Status = tl::expected<void, Error>;

/// Makes the failure side of a Result: `return fail(ErrorCode::Io, "...")`.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// Passes an error on: `return fail(result.error())`.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
    return tl::unexpected<Error>(std::move(error));
}

} // namespace sluice
