#include "gguf/gguf_header.h"

#include "gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <span>
#include <vector>

namespace sluice::gguf {

namespace {

// A header of 256 MiB is ten times the largest vocabulary known. The bound matters because gguf sizes
// its arrays by what the file says could still follow, up to eight times the bytes that are there.
constexpr uint64_t max_header_bytes = uint64_t{256} << 20;

// gguf compares each name with all before it, so a header of millions of names would take hours.
constexpr uint64_t max_entries = 32768;

constexpr size_t window_bytes = size_t{1} << 20;

/// Feeds gguf from an IFile through a window, since gguf asks for single array elements.
class HeaderSource {
public:
    explicit HeaderSource(platform::IFile &file)
        : file_(file), end_(std::min(file.size(), max_header_bytes)) {}

    /// Copies up to `length` bytes; fewer only at the end or after an error, which error() then holds.
    size_t read(void *into, uint64_t offset, size_t length) {
        size_t done = 0;
        while (done < length && !error_) {
            const uint64_t at = offset + done;
            if (at >= end_ || !fill(at)) {
                break;
            }
            const size_t skip = static_cast<size_t>(at - window_start_);
            const size_t count = std::min(length - done, window_.size() - skip);
            std::memcpy(static_cast<std::byte *>(into) + done, window_.data() + skip, count);
            done += count;
        }
        return done;
    }

    [[nodiscard]] uint64_t end() const { return end_; }
    [[nodiscard]] const std::optional<Error> &error() const { return error_; }

    // Runs below gguf's frames, which are not ready for exceptions: everything ends as a short count.
    static size_t callback(void *self, void *into, uint64_t offset, size_t length) {
        auto &source = *static_cast<HeaderSource *>(self);
        try {
            return source.read(into, offset, length);
        } catch (const std::bad_alloc &) {
            source.error_ = Error{ErrorCode::OutOfMemory, {}};
            return 0;
        }
    }

private:
    bool fill(uint64_t at) {
        if (at >= window_start_ && at - window_start_ < window_.size()) {
            return true;
        }
        window_.resize(static_cast<size_t>(std::min<uint64_t>(window_bytes, end_ - at)));
        window_start_ = at;
        Status status =
            platform::read_fully(file_, at, window_, window_.size(), platform::Access::Buffered, nullptr);
        if (!status) {
            window_.clear();
            error_ = status.error();
        }
        return status.has_value();
    }

    platform::IFile &file_;
    uint64_t end_;
    uint64_t window_start_ = 0;
    std::vector<std::byte> window_;
    std::optional<Error> error_;
};

/// Checks the fixed start of the file, where a clear sentence is still possible.
Status check_preamble(HeaderSource &source, const std::string &path) {
    std::array<char, 24> start{};
    const size_t count = source.read(start.data(), 0, start.size());
    if (source.error()) {
        return fail(*source.error());
    }
    if (count < 4 || std::memcmp(start.data(), GGUF_MAGIC, 4) != 0) {
        return fail(ErrorCode::InvalidFormat, fmt::format("{} is not a GGUF file", path));
    }
    if (count < start.size()) {
        return fail(ErrorCode::InvalidFormat, fmt::format("{} has a damaged or truncated GGUF header", path));
    }
    uint32_t version = 0;
    std::memcpy(&version, start.data() + 4, sizeof version);
    if (version < 2 || version > GGUF_VERSION) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{} is GGUF version {}; only 2 to {} in this machine's byte order are known",
                                path, version, GGUF_VERSION));
    }
    std::array<uint64_t, 2> counts{};
    std::memcpy(counts.data(), start.data() + 8, sizeof counts);
    if (counts[0] > max_entries || counts[1] > max_entries) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{} has a damaged or truncated GGUF header: it claims {} tensors and {} keys",
                                path, counts[0], counts[1]));
    }
    return {};
}

std::optional<uint64_t> non_negative(int64_t value) {
    return value < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(value));
}

/// The integer of type `type` stored at `data`, which need not be aligned.
std::optional<uint64_t> load_integer(gguf_type type, const void *data) {
    const auto as = [data](auto value) {
        std::memcpy(&value, data, sizeof value);
        return value;
    };
    switch (type) {
    case GGUF_TYPE_UINT8:
        return as(uint8_t{});
    case GGUF_TYPE_UINT16:
        return as(uint16_t{});
    case GGUF_TYPE_UINT32:
        return as(uint32_t{});
    case GGUF_TYPE_UINT64:
        return as(uint64_t{});
    case GGUF_TYPE_INT8:
        return non_negative(as(int8_t{}));
    case GGUF_TYPE_INT16:
        return non_negative(as(int16_t{}));
    case GGUF_TYPE_INT32:
        return non_negative(as(int32_t{}));
    case GGUF_TYPE_INT64:
        return non_negative(as(int64_t{}));
    default:
        return std::nullopt;
    }
}

} // namespace

void GgufContextDeleter::operator()(gguf_context *context) const {
    gguf_free(context);
}

Result<GgufContext> read_gguf_header(platform::IFile &file) {
    const std::string &path = file.path();
    try {
        HeaderSource source(file);
        if (Status status = check_preamble(source, path); !status) {
            return fail(status.error());
        }
        GgufContext context(gguf_init_from_callback(&HeaderSource::callback, &source, 0, source.end(),
                                                    {/*no_alloc=*/true, /*ctx=*/nullptr}));
        if (source.error() && source.error()->code != ErrorCode::OutOfMemory) {
            return fail(*source.error());
        }
        if (source.error()) {
            throw std::bad_alloc();
        }
        if (!context) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} has a damaged or truncated GGUF header", path));
        }
        return context;
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("not enough memory for the header of {}", path));
    } catch (const std::exception &) {
        // gguf's containers throw length_error for counts that no memory could hold.
        return fail(ErrorCode::InvalidFormat, fmt::format("{} has a damaged or truncated GGUF header", path));
    }
}

// The typed getters of gguf abort on another type than the stored one, so the type is looked at first.
std::optional<uint64_t> gguf_integer(const gguf_context &context, const std::string &key) {
    const int64_t id = gguf_find_key(&context, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    const gguf_type type = gguf_get_kv_type(&context, id);
    if (type == GGUF_TYPE_STRING) {
        return std::nullopt;
    }
    if (type != GGUF_TYPE_ARRAY) {
        return load_integer(type, gguf_get_val_data(&context, id));
    }
    const gguf_type element = gguf_get_arr_type(&context, id);
    if (element == GGUF_TYPE_STRING || gguf_get_arr_n(&context, id) == 0) {
        return std::nullopt;
    }
    return load_integer(element, gguf_get_arr_data(&context, id));
}

bool gguf_is_true(const gguf_context &context, const std::string &key) {
    const int64_t id = gguf_find_key(&context, key.c_str());
    return id >= 0 && gguf_get_kv_type(&context, id) == GGUF_TYPE_BOOL && gguf_get_val_bool(&context, id);
}

bool gguf_is_array(const gguf_context &context, const std::string &key) {
    const int64_t id = gguf_find_key(&context, key.c_str());
    return id >= 0 && gguf_get_kv_type(&context, id) == GGUF_TYPE_ARRAY;
}

std::optional<std::string> gguf_string(const gguf_context &context, const std::string &key) {
    const int64_t id = gguf_find_key(&context, key.c_str());
    if (id < 0 || gguf_get_kv_type(&context, id) != GGUF_TYPE_STRING) {
        return std::nullopt;
    }
    return std::string(gguf_get_val_str(&context, id));
}

} // namespace sluice::gguf
