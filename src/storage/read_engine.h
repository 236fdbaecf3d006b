// The port through which expert slices and row slabs arrive: many reads in flight, each with a callback.
#pragma once

#include "base/error.h"
#include "platform/file.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace sluice::storage {

/// One read to perform. `file` and `into` stay valid until the callback ran.
struct ReadRequest {
    platform::IFile *file = nullptr;
    uint64_t offset = 0;            ///< bytes; aligned for Access::Direct
    std::span<std::byte> into = {}; ///< destination, aligned for Access::Direct
    size_t needed = 0; ///< bytes of `into` that must arrive; the rest may lie past the end of the file
    platform::Access access = platform::Access::Buffered;
    /// Called once, on a reader thread, when the bytes are there or the read failed. Must not block or throw.
    std::function<void(Status)> done = {};
};

/// Totals since construction. Plain numbers; a snapshot need not be consistent between fields.
struct ReadCounters {
    uint64_t reads = 0;            ///< requests finished, failed ones included
    uint64_t bytes = 0;            ///< `needed` bytes of the requests that succeeded
    uint64_t device_bytes = 0;     ///< bytes asked of the file for them, alignment padding included
    uint64_t fallbacks = 0;        ///< Direct requests that had to be finished Buffered
    uint64_t errors = 0;           ///< requests that failed
    uint64_t busy_nanoseconds = 0; ///< time during which at least one request was in flight

    ReadCounters &operator+=(const ReadCounters &more) {
        for (uint64_t ReadCounters::*field :
             {&ReadCounters::reads, &ReadCounters::bytes, &ReadCounters::device_bytes,
              &ReadCounters::fallbacks, &ReadCounters::errors, &ReadCounters::busy_nanoseconds}) {
            this->*field += more.*field;
        }
        return *this;
    }
};

/// Performs reads in the background, in submission order as far as lanes allow. Thread-safe.
class IReadEngine {
public:
    /// Waits for every submitted request to finish.
    virtual ~IReadEngine() = default;

    /// Queues requests and returns at once. The requests are copied out of the span. Throws std::bad_alloc
    /// with none of them queued.
    virtual void submit(std::span<ReadRequest> requests) = 0;

    /// From now on keeps at most `width` reads in flight, at least 1; io_uring no more than it was made for.
    /// A pool starts the threads that it lacks for that, as far as the system gives them. Reads that are
    /// under way are left alone. Called by one thread at a time.
    virtual void set_width(int width) = 0;

    [[nodiscard]] virtual ReadCounters counters() const = 0;
};

/// A pool of `lanes` threads (1 to 64) doing positional reads. Works everywhere.
/// Errors: InvalidArgument for a lane count out of range, OutOfMemory if threads cannot be started.
Result<std::unique_ptr<IReadEngine>> make_thread_read_engine(int lanes);

/// io_uring with up to `depth` (1 to 1024) reads in flight; more wait their turn. submit() makes one system
/// call. Files without a descriptor, and reads that end short or with an error, are handled by a few ordinary
/// threads. Errors: InvalidArgument for a depth out of range; Unsupported, with the reason, where this build
/// or the kernel has no io_uring or refuses it; OutOfMemory.
Result<std::unique_ptr<IReadEngine>> make_uring_read_engine(int depth);

/// Which engine is wished for.
enum class ReadEngineKind {
    Auto,    ///< io_uring where it can be had, otherwise threads
    Uring,   ///< the same, but not getting it is worth a word
    Threads, ///< a pool of threads
};

/// Which engine reads, and how many reads at once.
struct ReadSetting {
    ReadEngineKind kind = ReadEngineKind::Threads; ///< Uring or Threads
    int width = 4;                                 ///< reads in flight
    bool operator==(const ReadSetting &) const = default;
};

/// Such as "io_uring, 4 reads in flight" and "8 reader threads".
std::string setting_name(const ReadSetting &setting);

/// A wish, with the size of either engine.
struct ReadEngineWish {
    ReadEngineKind kind = ReadEngineKind::Auto;
    int depth = 64; ///< reads in flight with io_uring
    int lanes = 4;  ///< threads otherwise
};

/// What it led to.
struct ChosenReadEngine {
    std::unique_ptr<IReadEngine> engine;
    ReadEngineKind kind = ReadEngineKind::Threads; ///< Uring or Threads
    std::string name;                              ///< such as "io_uring, 64 reads in flight"
    std::string note; ///< one line: what was taken instead and why; empty if the wish was met
};

/// The engine wished for or, where io_uring cannot be had, threads. Errors: InvalidArgument for a size out of
/// range, OutOfMemory if threads cannot be started.
Result<ChosenReadEngine> make_read_engine(const ReadEngineWish &wish);

} // namespace sluice::storage
