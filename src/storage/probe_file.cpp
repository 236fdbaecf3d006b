#include "storage/probe_file.h"

#include "storage/posix_calls.h"
#include "storage/reserved_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <span>
#include <sys/statvfs.h>
#include <utility>

namespace sluice::storage {
namespace {

constexpr uint64_t mebibyte = uint64_t{1} << 20;
constexpr uint64_t least_bytes = 16 * mebibyte;
constexpr size_t chunk_bytes = 4 * mebibyte;
/// Written bytes that may wait in memory, where they cannot be written past it.
constexpr uint64_t sync_every = 32 * mebibyte;

/// The file while it is written. Removes its name, if it has one, on destruction.
class Draft {
public:
    Draft() = default;
    ~Draft() { forget_name(); }
    Draft(const Draft &) = delete;
    Draft &operator=(const Draft &) = delete;

    /// Returns errno, or 0.
    int create(const std::string &directory) {
#if defined(O_TMPFILE) && defined(O_DIRECT)
        for (const int direct : {O_DIRECT, 0}) {
            fd_ = Descriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | direct, 0600));
            if (fd_.valid()) {
                direct_ = direct != 0;
                return 0;
            }
        }
#endif
        name_ = directory + "/sluice-probe-XXXXXX";
        fd_ = Descriptor(::mkstemp(name_.data()));
        if (!fd_.valid()) {
            const int number = errno;
            name_.clear();
            return number;
        }
        ::fcntl(fd_.get(), F_SETFD, FD_CLOEXEC);
#ifdef __linux__
        forget_name();
#endif
        return 0;
    }

    void forget_name() {
        if (!name_.empty()) {
            ::unlink(name_.c_str());
            name_.clear();
        }
    }

    /// Where it can be opened a second time.
    [[nodiscard]] std::string path() const {
        return name_.empty() ? fmt::format("/proc/self/fd/{}", fd_.get()) : name_;
    }

    /// Writes all of `bytes` at `offset`, whole pages. Returns errno, or 0.
    int write(std::span<const std::byte> bytes, uint64_t offset) {
        while (!bytes.empty()) {
            const ssize_t count = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
            if (count < 0 && errno == EINVAL && direct_) {
                stop_direct(); // opened so, but it cannot be written so
            } else if (count < 0 && errno != EINTR) {
                return errno;
            }
            const auto done = static_cast<size_t>(std::max<ssize_t>(count, 0));
            bytes = bytes.subspan(done);
            offset += done;
            if (done % page_size() != 0) {
                stop_direct();
            }
        }
        return 0;
    }

    /// Sees everything written onto the device. Returns errno, or 0.
    int sync() {
        return ::fsync(fd_.get()) == 0 ? 0 : errno;
    }

    int cut(uint64_t size) {
        return ::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0 ? 0 : errno;
    }

    [[nodiscard]] bool direct() const {
        return direct_;
    }

private:
    void stop_direct() {
#ifdef O_DIRECT
        if (direct_) {
            ::fcntl(fd_.get(), F_SETFL, 0);
        }
#endif
        direct_ = false;
    }

    Descriptor fd_;
    std::string name_; ///< empty when it has none
    bool direct_ = false;
};

Error writing_failed(const std::string &directory, int number) {
    const ErrorCode code = code_of_open_error(number);
    return {code, fmt::format("cannot write a temporary file in {}: {}", directory, errno_text(number))};
}

Error too_little_room(const std::string &directory, uint64_t free) {
    return {ErrorCode::Io,
            fmt::format("cannot measure in {}: only {} MiB are free there, and a temporary file of "
                        "{} MiB may take half of them at most",
                        directory, free / mebibyte, least_bytes / mebibyte)};
}

/// How large the file may become.
Result<uint64_t> size_for(const std::string &directory, uint64_t wanted) {
    struct statvfs facts = {};
    if (::statvfs(directory.c_str(), &facts) != 0) {
        return fail(writing_failed(directory, errno));
    }
    const uint64_t free = static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize;
    const uint64_t size = std::min(wanted, free / 2) / chunk_bytes * chunk_bytes;
    if (size < least_bytes) {
        return fail(too_little_room(directory, free));
    }
    return size;
}

/// Fills `bytes` with what no device can compress or has stored already (splitmix64).
void scramble(std::span<std::byte> bytes, uint64_t &seed) {
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
        seed += 0x9E3779B97F4A7C15u;
        uint64_t word = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9u;
        word = (word ^ word >> 27) * 0x94D049BB133111EBu;
        word ^= word >> 31;
        std::memcpy(bytes.data() + i, &word, sizeof(word));
    }
}

/// Fills the file; returns its size. Fewer bytes than `size` when time or room runs out.
Result<uint64_t> fill(Draft &draft, const std::string &directory, uint64_t size,
                      const ProbeFileOptions &options) {
    Result<ReservedMemory> memory = ReservedMemory::reserve(chunk_bytes, MemoryUse::Arena);
    if (!memory) {
        return fail(memory.error());
    }
    const auto give_up = std::chrono::steady_clock::now() + options.patience;
    uint64_t seed = std::random_device{}();
    uint64_t written = 0;
    int number = 0;
    while (written < size && number == 0) {
        if (options.keep_going && !options.keep_going()) {
            return fail(ErrorCode::Cancelled, "interrupted");
        }
        if (written >= least_bytes && std::chrono::steady_clock::now() >= give_up) {
            break;
        }
        scramble(memory->bytes().first(chunk_bytes), seed);
        number = draft.write(memory->bytes().first(chunk_bytes), written);
        written += number == 0 ? chunk_bytes : 0;
        if (number == 0 && !draft.direct() && written % sync_every == 0) {
            number = draft.sync();
        }
    }
    if (number != 0 && written < least_bytes) {
        return fail(writing_failed(directory, number));
    }
    // What a failed write left behind is cut off. A file whose bytes are not on the device measures nothing.
    number = draft.cut(written);
    number = number == 0 ? draft.sync() : number;
    return number == 0 ? Result<uint64_t>(written) : fail(writing_failed(directory, number));
}

} // namespace

Result<std::unique_ptr<IFile>> make_probe_file(const std::string &directory, const ProbeFileOptions &options,
                                               IFileSystem &files) {
    const Result<uint64_t> size = size_for(directory, options.wanted_bytes);
    if (!size) {
        return fail(size.error());
    }
    Draft draft;
    if (const int number = draft.create(directory); number != 0) {
        return fail(writing_failed(directory, number));
    }
    if (const Result<uint64_t> filled = fill(draft, directory, *size, options); !filled) {
        return fail(filled.error());
    }
    return files.open(draft.path(), true);
}

} // namespace sluice::storage
