// The storage port: positional reads of one model file. Everything above it sees only this.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace sluice::platform {

/// How a file is read.
enum class Access {
    Buffered, ///< through the page cache, any alignment
    Direct,   ///< past the page cache; offset, length and memory must be multiples of alignment()
};

/// How mapped bytes will be used.
enum class MapAdvice {
    Normal,   ///< the system's usual read-ahead
    Random,   ///< a fault brings in no more than its own page
    WillNeed, ///< reading all of it starts at once, in the background as far as the system does that
};

/// One open, read-only file. Thread-safe: reads carry their own offset and share no position.
class IFile {
public:
    virtual ~IFile() = default;

    /// Reads up to `into.size()` bytes at `offset` (bytes) into `into`. One attempt: a short count is
    /// not an error, 0 means end of file. An interrupted call (EINTR) is reported as a count of what
    /// arrived or retried by the adapter; a failure carries the errno text and the path.
    virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, Access access) = 0;

    /// Maps file bytes `offset` to `offset + where.size()` over memory the caller has reserved, in place of
    /// what it held: read-only from then on, private to the process, kept by the page cache as it sees fit.
    /// `offset`, address and size are multiples of page_size(). Bytes past the end of the file in its last
    /// page read as zero; pages wholly past it, which would be fatal to touch, are refused. The memory stays
    /// the caller's, who unmaps it as before; the file may be closed first. Errors: InvalidArgument, with
    /// `where` as it was; OutOfMemory or Io with path and errno text, after which `where` is anonymous memory
    /// that reads as zero.
    virtual Status map_over(uint64_t offset, std::span<std::byte> where, MapAdvice advice) = 0;

    /// Size in bytes when opened.
    [[nodiscard]] virtual uint64_t size() const = 0;

    /// Block size in bytes that Direct reads must respect; a power of two, 1 if direct_trusted() is false.
    [[nodiscard]] virtual size_t alignment() const = 0;

    /// Whether Direct reads may be used: a probing read returned the same bytes as a buffered one.
    [[nodiscard]] virtual bool direct_trusted() const = 0;

    /// Why direct_trusted() is false, as a sentence; empty when it is true.
    [[nodiscard]] virtual const std::string &direct_refusal() const = 0;

    [[nodiscard]] virtual const std::string &path() const = 0;

    /// The system's descriptor behind reads of this kind, for engines that hand reads to the kernel
    /// themselves. It stays the file's and lives as long. Empty: there is none, or reads must go through
    /// read_at().
    [[nodiscard]] virtual std::optional<int> descriptor(Access /*access*/) const { return std::nullopt; }
};

/// Opens files. Tests put a faulty one in its place.
class IFileSystem {
public:
    virtual ~IFileSystem() = default;

    /// Opens `path` for reading. With `want_direct`, also opens it for Direct reads and probes them;
    /// a refused or wrong probe is no error, see IFile::direct_trusted().
    /// Errors: NotFound, PermissionDenied, InvalidFormat (not a regular file), Io.
    virtual Result<std::unique_ptr<IFile>> open(const std::string &path, bool want_direct) = 0;
};

/// The file system of this machine. Stateless; lives as long as the process.
IFileSystem &system_files();

/// Reads exactly `into.size()` bytes at `offset` through `access`, going on after short reads.
/// A Direct read that fails or stops short before the end is finished by Buffered reads; `*fell_back`
/// (may be null) tells whether that happened. Errors: Io, or InvalidFormat when the file ends too soon;
/// the message names path, offset and errno text. Thread-safe.
///
/// For Direct, `offset`, the address and the size of `into` must respect alignment(), save that the
/// last `into.size() - needed` bytes may lie past the end of the file: only `needed` bytes must arrive.
Status read_fully(IFile &file, uint64_t offset, std::span<std::byte> into, size_t needed, Access access,
                  bool *fell_back);

/// Asks the system to forget what it has cached of the file, so that reading it costs what it costs. It may
/// keep pages that somebody has mapped.
void drop_cached(const IFile &file);

} // namespace sluice::platform
