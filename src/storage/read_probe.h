// Measures how fast reads of a file come from its device, through the engines that will do them.
#pragma once

#include "storage/device_probe.h"
#include "storage/file.h"
#include "storage/read_order.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

namespace sluice::storage {

/// How to measure.
struct ReadProbeOptions {
    Access access = Access::Buffered;         ///< Direct only if the file's direct reads are trusted
    std::chrono::milliseconds per_width{150}; ///< measured so long; up to five times that if reads are slow
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::function<bool()> keep_going = {}; ///< asked now and then; false ends the measuring early
};

/// Reads a file in random order, never a block twice before all were read. Numbers are believed only if the
/// system's accounting says that the bytes came from storage; before buffered reads the file is dropped from
/// the page cache. Assumes that the process reads nothing else meanwhile. Not thread-safe.
class ReadProbe {
public:
    /// `file` outlives this object.
    ReadProbe(IFile &file, ReadProbeOptions options) : file_(file), options_(std::move(options)) {}

    /// Measures reads of `read_bytes` (at least 1) by one engine, with each of `widths` at once. A width that
    /// cannot be measured says why.
    ReadCurve measure(ReadEngineKind engine, uint64_t read_bytes, std::span<const int> widths);

    /// How often the reads of one size went over the whole file, at most; above 1, blocks were read again.
    [[nodiscard]] double rounds() const;

private:
    struct Geometry;
    class Flight;

    ReadRate measure_width(ReadEngineKind engine, const Geometry &geometry, int width,
                           std::chrono::milliseconds duration);
    bool keeps_going() const { return !options_.keep_going || options_.keep_going(); }

    IFile &file_;
    ReadProbeOptions options_;
    std::map<uint64_t, ReadOrder> orders_; ///< by read size
    bool warm_ = false;
};

} // namespace sluice::storage
