// Turning single attempts at reading into whole reads.
#include "platform/file.h"

#include <fmt/format.h>

namespace sluice::platform {
namespace {

/// How often in a row a read may bring nothing although the file goes on there, before we believe it.
constexpr int patience = 3;

/// Reads past the page cache as far as that goes. Returns how many bytes arrived; any trouble just ends it,
/// since a buffered read of the rest will either help or say what is wrong.
size_t read_direct(IFile &file, uint64_t offset, std::span<std::byte> into, size_t needed) {
    size_t done = 0;
    while (done < needed) {
        const Result<size_t> got = file.read_at(offset + done, into.subspan(done), Access::Direct);
        if (!got || *got == 0) {
            return done;
        }
        done += *got;
        // The next direct read would have to start inside a block.
        if (done % file.alignment() != 0) {
            return done;
        }
    }
    return done;
}

Status read_buffered(IFile &file, uint64_t offset, std::span<std::byte> into) {
    size_t done = 0;
    int fruitless = 0;
    while (done < into.size()) {
        const uint64_t at = offset + done;
        const Result<size_t> got = file.read_at(at, into.subspan(done), Access::Buffered);
        if (!got) {
            return fail(got.error());
        }
        if (*got > 0) {
            fruitless = 0;
            done += *got;
            continue;
        }
        // Nothing at all before the end may be an interrupted call; more than once is a file cut short.
        if (at >= file.size() || ++fruitless >= patience) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} ends too soon: nothing could be read at offset {}, {} bytes short",
                                    file.path(), at, into.size() - done));
        }
    }
    return {};
}

} // namespace

Status read_fully(IFile &file, uint64_t offset, std::span<std::byte> into, size_t needed, Access access,
                  bool *fell_back) {
    if (fell_back != nullptr) {
        *fell_back = false;
    }
    if (needed > into.size()) {
        return fail(ErrorCode::InvalidArgument, fmt::format("{} bytes of {} at offset {} do not fit into {}",
                                                            needed, file.path(), offset, into.size()));
    }
    size_t done = 0;
    if (access == Access::Direct) {
        done = read_direct(file, offset, into, needed);
        if (done >= needed) {
            return {};
        }
        if (fell_back != nullptr) {
            *fell_back = true;
        }
    }
    return read_buffered(file, offset + done, into.subspan(done, needed - done));
}

} // namespace sluice::platform
