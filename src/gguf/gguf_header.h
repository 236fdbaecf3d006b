// Reading one file's GGUF header through the storage port, with hostile files in mind.
#pragma once

#include "base/error.h"
#include "platform/file.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct gguf_context;

namespace sluice::gguf {

struct GgufContextDeleter {
    void operator()(gguf_context *context) const;
};
using GgufContext = std::unique_ptr<gguf_context, GgufContextDeleter>;

/// Reads the header (keys and tensor descriptions, no tensor data) of `file`.
/// Errors: InvalidFormat, Io, OutOfMemory.
Result<GgufContext> read_gguf_header(platform::IFile &file);

/// The value of an integer key, or of the first element of an integer array; empty if absent, negative
/// or of another type.
std::optional<uint64_t> gguf_integer(const gguf_context &context, const std::string &key);

/// The value of that name is a truth value, and it is true.
bool gguf_is_true(const gguf_context &context, const std::string &key);

/// Is there a value of that name, and is it an array?
bool gguf_is_array(const gguf_context &context, const std::string &key);

/// The value of a string key, empty if absent or of another type.
std::optional<std::string> gguf_string(const gguf_context &context, const std::string &key);

} // namespace sluice::gguf
