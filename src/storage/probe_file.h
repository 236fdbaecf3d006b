// A temporary file to measure reads of.
#pragma once

#include "sluice/error.h"
#include "storage/file.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice::storage {

/// How large it shall be, and how long writing may take.
struct ProbeFileOptions {
    uint64_t wanted_bytes = uint64_t{512}
                            << 20;            ///< less where the disk is short or slow, but at least 16 MiB
    std::chrono::milliseconds patience{2000}; ///< no more is written after this
    std::function<bool()> keep_going = {};    ///< asked now and then; false cancels
};

/// Writes a file of incompressible bytes in `directory` and opens it for reading, direct if possible. On
/// Linux it has no name, so it is gone when the process ends, however that comes; elsewhere its name is
/// removed before this returns. It takes at most half of what is free. Its bytes are on the device, not
/// waiting in memory. Errors: NotFound, PermissionDenied, Io (the disk is full, or a write failed),
/// Cancelled. Messages name the directory.
Result<std::unique_ptr<IFile>> make_probe_file(const std::string &directory, const ProbeFileOptions &options,
                                               IFileSystem &files);

} // namespace sluice::storage
