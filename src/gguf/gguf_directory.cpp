#include "gguf/gguf_directory.h"

#include "gguf/gguf_header.h"
#include "gguf/shard_names.h"

#include "ggml.h"
#include "gguf.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <new>
#include <utility>

namespace sluice::gguf {

struct GgufDirectory::Header {
    GgufContext context;
    std::string architecture;
};

void GgufDirectory::HeaderDeleter::operator()(Header *header) const {
    delete header;
}

namespace {

constexpr uint64_t max_shards = std::numeric_limits<uint16_t>::max(); // split.count is a u16

/// `name` fit for a message: a hostile file must not send escape codes to a terminal.
std::string printable(std::string_view name) {
    std::string text(name);
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return text;
}

/// a * b, or empty when that does not fit 64 bits.
std::optional<uint64_t> multiply(uint64_t a, uint64_t b) {
    if (a != 0 && b > std::numeric_limits<uint64_t>::max() / a) {
        return std::nullopt;
    }
    return a * b;
}

/// Bytes of a tensor. Computed here because ggml's own sum wraps for shapes like 2^32 x 2^32, which
/// then look small and pass gguf's checks.
std::optional<uint64_t> tensor_bytes(ggml_type type, const std::array<int64_t, 4> &shape) {
    const int64_t block = ggml_blck_size(type);
    if (block <= 0 || shape[0] % block != 0) {
        return std::nullopt;
    }
    std::optional<uint64_t> bytes = multiply(static_cast<uint64_t>(shape[0] / block), ggml_type_size(type));
    for (size_t i = 1; i < shape.size() && bytes; ++i) {
        bytes = multiply(*bytes, static_cast<uint64_t>(shape[i]));
    }
    return bytes;
}

/// Adds the tensors of one shard, each checked against the shard's size.
Status append_tensors(const gguf_context &context, size_t shard, const platform::IFile &file,
                      std::vector<TensorEntry> &tensors) {
    const int64_t count = gguf_get_n_tensors(&context);
    const uint64_t data_start = gguf_get_data_offset(&context);
    for (int64_t id = 0; id < count; ++id) {
        TensorEntry entry;
        entry.name = gguf_get_tensor_name(&context, id);
        const ggml_type type = gguf_get_tensor_type(&context, id);
        entry.type = type;
        std::copy_n(gguf_get_tensor_ne(&context, id), entry.shape.size(), entry.shape.begin());
        entry.shard = shard;

        const std::optional<uint64_t> bytes = tensor_bytes(type, entry.shape);
        if (!bytes) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} has a damaged GGUF header: tensor {} has an impossible shape",
                                    file.path(), printable(entry.name)));
        }
        entry.bytes = *bytes;
        const uint64_t relative = gguf_get_tensor_offset(&context, id);
        constexpr uint64_t limit = std::numeric_limits<uint64_t>::max();
        if (relative > limit - data_start || entry.bytes > limit - data_start - relative) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} has a damaged GGUF header: tensor {} lies beyond any file",
                                    file.path(), printable(entry.name)));
        }
        entry.offset = data_start + relative;
        if (entry.offset + entry.bytes > file.size()) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} is truncated: tensor {} needs bytes up to {}, the file has {}",
                                    file.path(), printable(entry.name), entry.offset + entry.bytes,
                                    file.size()));
        }
        tensors.push_back(std::move(entry));
    }
    return {};
}

/// What one file says of the split it belongs to.
struct Split {
    uint64_t number = 0; ///< from 0
    uint64_t count = 1;
};

Result<Split> read_split(const gguf_context &context, const std::string &path) {
    if (gguf_find_key(&context, "split.count") < 0) {
        return Split{};
    }
    const std::optional<uint64_t> count = gguf_integer(context, "split.count");
    if (count && *count <= 1) {
        return Split{};
    }
    const std::optional<uint64_t> number = gguf_integer(context, "split.no");
    if (!count || !number || *count > max_shards || *number >= *count) {
        return fail(
            ErrorCode::InvalidFormat,
            fmt::format("{} has a damaged GGUF header: its split.no and split.count make no sense", path));
    }
    return Split{*number, *count};
}

/// The paths of all shards, given the file the user named and what it says of itself.
Result<std::vector<std::string>> list_shards(const std::string &path, const Split &split) {
    if (split.count <= 1) {
        return std::vector<std::string>{path};
    }
    const auto prefix = shard_prefix(path, split.number, split.count);
    const auto part =
        fmt::format("{} is part {} of a model split in {}", path, split.number + 1, split.count);
    if (!prefix) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{}, so its name must end in \"-{:05}-of-{:05}.gguf\"", part,
                                split.number + 1, split.count));
    }
    if (split.number != 0) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{}; give the first, {}", part, shard_path(*prefix, 0, split.count)));
    }
    std::vector<std::string> paths{path};
    for (uint64_t number = 1; number < split.count; ++number) {
        paths.push_back(shard_path(*prefix, number, split.count));
    }
    return paths;
}

/// Opens shard `number` and reads its header, checking that it is the one its name says.
Result<std::pair<std::unique_ptr<platform::IFile>, GgufContext>>
open_shard(const std::vector<std::string> &paths, size_t number, bool want_direct,
           platform::IFileSystem &files) {
    auto file = files.open(paths[number], want_direct);
    if (!file) {
        if (file.error().code == ErrorCode::NotFound) {
            return fail(ErrorCode::NotFound, fmt::format("part {} of the model's {} is missing: {}",
                                                         number + 1, paths.size(), paths[number]));
        }
        return fail(file.error());
    }
    auto context = read_gguf_header(**file);
    if (!context) {
        return fail(context.error());
    }
    const std::optional<uint64_t> said = gguf_integer(**context, "split.no");
    const std::optional<uint64_t> count = gguf_integer(**context, "split.count");
    if (said != number || count.value_or(paths.size()) != paths.size()) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{} does not say that it is part {} of {}: it belongs to another model",
                                paths[number], number + 1, paths.size()));
    }
    return std::pair(std::move(*file), std::move(*context));
}

Status index_names(const std::vector<TensorEntry> &tensors, const std::vector<std::string> &paths,
                   std::unordered_map<std::string_view, size_t> &by_name) {
    by_name.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        const auto [at, added] = by_name.emplace(tensors[i].name, i);
        if (!added) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("tensor {} is in the model twice, in {} and in {}",
                                    printable(tensors[i].name), paths[tensors[at->second].shard],
                                    paths[tensors[i].shard]));
        }
    }
    return {};
}

/// Whether the shards together hold as many tensors as the first one promises.
Status check_tensor_count(const gguf_context &first, const std::string &path, size_t found) {
    const std::optional<uint64_t> promised = gguf_integer(first, "split.tensors.count");
    if (promised && *promised != found) {
        return fail(
            ErrorCode::InvalidFormat,
            fmt::format("{} promises {} tensors in all parts, but {} are there", path, *promised, found));
    }
    return {};
}

} // namespace

Result<std::unique_ptr<GgufDirectory>> GgufDirectory::open(const std::string &path, bool want_direct,
                                                           platform::IFileSystem &files) try {
    auto directory = std::make_unique<GgufDirectory>();
    auto file = files.open(path, want_direct);
    if (!file) {
        return fail(file.error());
    }
    auto context = read_gguf_header(**file);
    if (!context) {
        return fail(context.error());
    }
    const auto split = read_split(**context, path);
    if (!split) {
        return fail(split.error());
    }
    auto paths = list_shards(path, *split);
    if (!paths) {
        return fail(paths.error());
    }
    auto architecture = gguf_string(**context, "general.architecture");
    if (!architecture || architecture->empty()) {
        return fail(ErrorCode::InvalidFormat,
                    fmt::format("{} does not name its architecture (general.architecture)", path));
    }
    directory->header_.reset(new Header{std::move(*context), std::move(*architecture)});
    directory->paths_ = std::move(*paths);
    const gguf_context &first = *directory->header_->context;

    Status status = append_tensors(first, 0, **file, directory->tensors_);
    directory->shards_.push_back(std::move(*file));
    for (size_t number = 1; status && number < directory->paths_.size(); ++number) {
        auto shard = open_shard(directory->paths_, number, want_direct, files);
        if (!shard) {
            return fail(shard.error());
        }
        status = append_tensors(*shard->second, number, *shard->first, directory->tensors_);
        directory->shards_.push_back(std::move(shard->first));
    }
    if (status && directory->paths_.size() > 1) {
        status = check_tensor_count(first, path, directory->tensors_.size());
    }
    if (status) {
        status = index_names(directory->tensors_, directory->paths_, directory->by_name_);
    }
    if (!status) {
        return fail(status.error());
    }
    for (const auto &shard : directory->shards_) {
        directory->file_bytes_ += shard->size();
    }
    return directory;
} catch (const std::bad_alloc &) {
    return fail(ErrorCode::OutOfMemory, "not enough memory for the model's directory");
}

const TensorEntry *GgufDirectory::find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

std::string GgufDirectory::key_of(std::string_view key) const {
    constexpr std::string_view placeholder = "{arch}";
    std::string full(key);
    if (const size_t at = full.find(placeholder); at != std::string::npos) {
        full.replace(at, placeholder.size(), header_->architecture);
    }
    return full;
}

std::optional<uint64_t> GgufDirectory::header_integer(std::string_view key) const {
    return gguf_integer(*header_->context, key_of(key));
}

bool GgufDirectory::header_is_true(std::string_view key) const {
    return gguf_is_true(*header_->context, key_of(key));
}

bool GgufDirectory::header_is_array(std::string_view key) const {
    return gguf_is_array(*header_->context, key_of(key));
}

std::optional<std::string> GgufDirectory::header_string(std::string_view key) const {
    return gguf_string(*header_->context, std::string(key));
}

} // namespace sluice::gguf
