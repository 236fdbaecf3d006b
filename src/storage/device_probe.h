// What a probe found out about a device and the machine, and where that is kept for those who plan by it.
#pragma once

#include "sluice/error.h"
#include "storage/device_identity.h"
#include "storage/read_engine.h"
#include "storage/user_cache.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::storage {

/// The small reads that are measured: a slab of a row table.
constexpr uint64_t small_read_bytes = uint64_t{16} << 10;

/// How fast reads came with so many at once.
struct ReadRate {
    int width = 0;                             ///< threads, or with io_uring reads in flight
    std::optional<double> mib_per_second = {}; ///< empty: unmeasured
    std::string unmeasured = {};               ///< why
    bool operator==(const ReadRate &) const = default;
};

/// Reads of one size through one engine.
struct ReadCurve {
    ReadEngineKind engine = ReadEngineKind::Threads; ///< Threads or Uring
    uint64_t read_bytes = 0;
    std::vector<ReadRate> rates = {}; ///< by growing width
    bool operator==(const ReadCurve &) const = default;
};

/// How to read, and how fast that was.
struct ReadChoice {
    ReadEngineKind engine = ReadEngineKind::Threads;
    int width = 0;
    double mib_per_second = 0;
    bool operator==(const ReadChoice &) const = default;
};

/// Processor and memory, in GB (10^9 bytes) a second. An empty optional means "unmeasured".
struct MachineRates {
    int cores = 0;                              ///< physical cores that "all" means
    std::optional<double> memory_one_core = {}; ///< reading memory
    std::optional<double> memory_all_cores = {};
    std::optional<double> compute_one_core = {}; ///< multiplying q4_K weights that lie in memory
    std::optional<double> compute_all_cores = {};
    std::string unmeasured = {}; ///< why, if something is
    bool operator==(const MachineRates &) const = default;
};

/// The result of one probe. Plain data.
struct ProbeResult {
    DeviceIdentity device;
    std::string engine_version; ///< of Sluice
    std::string date;           ///< UTC, as 2026-01-31T12:00:00Z
    bool direct = false;        ///< reads went past the page cache
    uint64_t slice_bytes = 0;   ///< size of the large reads
    std::vector<ReadCurve> curves = {};
    std::optional<ReadChoice> slices = {}; ///< best for reads of slice_bytes; empty: unmeasured
    std::optional<ReadChoice> small = {};  ///< best for reads of small_read_bytes; empty: unmeasured
    MachineRates machine = {};
    std::vector<std::string> notes = {}; ///< what to know when reading the numbers, a sentence each
    bool operator==(const ProbeResult &) const = default;
};

/// The smallest width among the curves for `read_bytes` that reaches 95 % of the best rate; of equal widths
/// the faster one. Empty if nothing was measured.
std::optional<ReadChoice> choose_reading(std::span<const ReadCurve> curves, uint64_t read_bytes);

/// The result as JSON text, and back. Errors: InvalidFormat for text that is none.
std::string to_json(const ProbeResult &result);
Result<ProbeResult> from_json(std::string_view text);

/// Keeps a result in `directory` in place of an earlier one for the same device; readers see the old or the
/// new one whole. Returns the file's path. Errors: NotFound (no directory), PermissionDenied, Io.
Result<std::string> save_probe(const ProbeResult &result,
                               const std::string &directory = user_cache_directory());

/// The result kept for the device that holds `path`, a file or directory. Empty if there is none, or none
/// that can be read and understood.
std::optional<ProbeResult> load_probe(const std::string &path,
                                      const std::string &directory = user_cache_directory());

} // namespace sluice::storage
