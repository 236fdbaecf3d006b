// Where each tensor's bytes are: one directory over all shards of a GGUF model.
#pragma once

#include "base/error.h"
#include "platform/file.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::gguf {

/// One tensor as the file describes it. Plain data.
struct TensorEntry {
    std::string name;
    int type = 0;                             ///< a ggml_type
    std::array<int64_t, 4> shape{1, 1, 1, 1}; ///< elements, innermost first
    uint64_t bytes = 0;
    size_t shard = 0;    ///< index into GgufDirectory::shards()
    uint64_t offset = 0; ///< bytes from the start of the shard's file
};

/// All tensors of a model, whether in one file or split ("-00001-of-0000N.gguf").
/// Immutable after open(); reading it is thread-safe. Names are keys, nothing is read into them.
class GgufDirectory {
public:
    /// Reads the headers of `path` and, if it is the first of several shards, of all others.
    /// Checks that every tensor lies inside its file and that no name occurs twice.
    /// `want_direct`: open the shards for direct reads too (see IFileSystem::open).
    /// Errors: NotFound (also a missing shard, by name), PermissionDenied, InvalidFormat (not a GGUF,
    /// truncated, wrong shard given first, tensor outside the file), Io.
    static Result<std::unique_ptr<GgufDirectory>> open(const std::string &path, bool want_direct,
                                                       platform::IFileSystem &files);

    /// Paths of the shards for a model that starts at `path`, in order; just `path` if it is not split.
    [[nodiscard]] const std::vector<std::string> &shard_paths() const { return paths_; }
    [[nodiscard]] const std::vector<std::unique_ptr<platform::IFile>> &shards() const { return shards_; }
    [[nodiscard]] const std::vector<TensorEntry> &tensors() const { return tensors_; }

    /// The entry called `name`, or null. The pointer lives as long as the directory.
    [[nodiscard]] const TensorEntry *find(std::string_view name) const;

    /// Sum of the shards' sizes in bytes.
    [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }

    /// An unsigned integer from the header: `key` may hold "{arch}", replaced by general.architecture.
    /// Empty if absent or not an integer (the first element's if it is an array of integers).
    [[nodiscard]] std::optional<uint64_t> header_integer(std::string_view key) const;

    /// Is there a value of that name in the header, a truth value, and is it true?
    [[nodiscard]] bool header_is_true(std::string_view key) const;

    /// Is there a value of that name in the header, and is it an array?
    [[nodiscard]] bool header_is_array(std::string_view key) const;

    /// A string from the header, empty if absent.
    [[nodiscard]] std::optional<std::string> header_string(std::string_view key) const;

private:
    /// `key` with "{arch}" replaced.
    [[nodiscard]] std::string key_of(std::string_view key) const;

    struct Header; ///< owns the first shard's gguf context
    struct HeaderDeleter {
        void operator()(Header *header) const;
    };

    std::vector<std::string> paths_;
    std::vector<std::unique_ptr<platform::IFile>> shards_;
    std::vector<TensorEntry> tensors_;
    std::unordered_map<std::string_view, size_t> by_name_;
    uint64_t file_bytes_ = 0;
    std::unique_ptr<Header, HeaderDeleter> header_;
};

} // namespace sluice::gguf
