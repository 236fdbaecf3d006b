// Measures a device and this machine as the engine will use them.
#pragma once

#include "sluice/error.h"
#include "storage/device_probe.h"
#include "storage/file.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace sluice::engine {

/// What to probe, and how thoroughly.
struct ProbeOptions {
    std::string path; ///< a GGUF (or any file) to read from, or a directory to write a temporary file in
    std::string engine_version;                     ///< goes into the result
    uint64_t temporary_bytes = uint64_t{512} << 20; ///< size of the temporary file, at most
    uint64_t memory_bytes = uint64_t{256}
                            << 20;              ///< memory to compute on, at most an eighth of what is usable
    std::chrono::milliseconds per_rate{150};    ///< each rate is measured so long
    std::chrono::milliseconds time_limit{7000}; ///< no read is begun after this
    /// Told now and then what is being done and how much of everything is; returning false cancels.
    std::function<bool(const std::string &what, double done)> progress = {};
};

/// Measures reads of one expert's slice (of the largest bank of a GGUF; otherwise 1 MiB) and of 16 KiB with
/// growing numbers of them at once, by threads and by io_uring, then memory and processor. A number that
/// cannot be trusted is left out, with the reason; see ProbeResult. Takes memory of up to 512 MiB. Spins on
/// all cores for a moment. Errors: NotFound, PermissionDenied, InvalidFormat (neither file nor directory), Io
/// (no room for the temporary file), Cancelled.
Result<storage::ProbeResult> run_probe(const ProbeOptions &options,
                                       storage::IFileSystem &files = storage::system_files());

} // namespace sluice::engine
