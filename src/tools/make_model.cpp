#include "tools/make_model.h"

#include "gguf/gguf_header.h"
#include "gguf/shard_names.h"
#include "tools/make_model_recipes.h"

#include "ggml.h"
#include "gguf.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <system_error>

namespace sluice::tools {

namespace {

namespace fs = std::filesystem;

constexpr size_t chunk_bytes = size_t{1} << 20; // part of the format: a stream's last word may be cut here
constexpr size_t max_shards = 65535;            // split.count is a u16

uint64_t padded(uint64_t bytes) {
    return (bytes + GGUF_DEFAULT_ALIGNMENT - 1) / GGUF_DEFAULT_ALIGNMENT * GGUF_DEFAULT_ALIGNMENT;
}

uint64_t tensor_bytes(const TensorPlan &tensor) {
    uint64_t bytes = ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]);
    for (size_t i = 1; i < tensor.shape.size(); ++i) {
        bytes *= static_cast<uint64_t>(tensor.shape[i]);
    }
    return bytes;
}

/// One file to write: header, then the tensors [first, last) of the plan.
struct Shard {
    std::string path;
    size_t first = 0;
    size_t last = 0;
    std::vector<std::byte> header;
    uint64_t bytes = 0; ///< of the whole file

    [[nodiscard]] std::string partial_path() const { return path + ".partial"; }
};

/// Removes what was written, unless it was kept.
class Cleanup {
public:
    explicit Cleanup(const std::vector<Shard> &shards) : shards_(shards) {}
    ~Cleanup() {
        std::error_code ignored;
        for (size_t i = 0; i < shards_.size() && !kept_; ++i) {
            fs::remove(i < renamed_from_ ? shards_[i].partial_path() : shards_[i].path, ignored);
        }
    }
    Cleanup(const Cleanup &) = delete;
    Cleanup &operator=(const Cleanup &) = delete;

    /// From now on shards `index` and later are at their final paths.
    void renamed(size_t index) { renamed_from_ = index; }
    void keep() { kept_ = true; }

private:
    const std::vector<Shard> &shards_;
    size_t renamed_from_ = SIZE_MAX;
    bool kept_ = false;
};

struct SetKey {
    gguf_context *header;
    const char *name;

    void operator()(uint32_t value) const { gguf_set_val_u32(header, name, value); }
    void operator()(float value) const { gguf_set_val_f32(header, name, value); }
    void operator()(bool value) const { gguf_set_val_bool(header, name, value); }
    void operator()(const std::string &value) const { gguf_set_val_str(header, name, value.c_str()); }
    void operator()(const std::vector<bool> &value) const {
        const std::vector<int8_t> bytes(value.begin(), value.end());
        gguf_set_arr_data(header, name, GGUF_TYPE_BOOL, bytes.data(), bytes.size());
    }
    void operator()(const std::vector<uint32_t> &value) const {
        gguf_set_arr_data(header, name, GGUF_TYPE_UINT32, value.data(), value.size());
    }
    void operator()(const std::vector<uint64_t> &value) const {
        gguf_set_arr_data(header, name, GGUF_TYPE_UINT64, value.data(), value.size());
    }
    void operator()(const std::vector<int32_t> &value) const {
        gguf_set_arr_data(header, name, GGUF_TYPE_INT32, value.data(), value.size());
    }
    void operator()(const std::vector<float> &value) const {
        gguf_set_arr_data(header, name, GGUF_TYPE_FLOAT32, value.data(), value.size());
    }
    void operator()(const std::vector<std::string> &value) const {
        std::vector<const char *> texts;
        texts.reserve(value.size());
        for (const std::string &text : value) {
            texts.push_back(text.c_str());
        }
        gguf_set_arr_str(header, name, texts.data(), texts.size());
    }
};

struct GgmlContextDeleter {
    void operator()(ggml_context *context) const { ggml_free(context); }
};

/// The bytes of shard `number`'s header. As llama.cpp's gguf-split does, the first shard has all keys.
std::vector<std::byte> make_header(const ModelPlan &plan, const Shard &shard, size_t number, size_t count) {
    const gguf::GgufContext header(gguf_init_empty());
    if (number == 0) {
        for (const auto &[name, value] : plan.keys) {
            std::visit(SetKey{header.get(), name.c_str()}, value);
        }
    }
    if (count > 1) {
        gguf_set_val_u16(header.get(), "split.no", static_cast<uint16_t>(number));
        gguf_set_val_u16(header.get(), "split.count", static_cast<uint16_t>(count));
        gguf_set_val_i32(header.get(), "split.tensors.count", static_cast<int32_t>(plan.tensors.size()));
    }
    const std::unique_ptr<ggml_context, GgmlContextDeleter> tensors(
        ggml_init({ggml_tensor_overhead() * (shard.last - shard.first + 1), nullptr, /*no_alloc=*/true}));
    if (!tensors) {
        throw std::bad_alloc();
    }
    for (size_t i = shard.first; i < shard.last; ++i) {
        const TensorPlan &wanted = plan.tensors[i];
        ggml_tensor *tensor = ggml_new_tensor(tensors.get(), static_cast<ggml_type>(wanted.type),
                                              wanted.dimensions, wanted.shape.data());
        ggml_set_name(tensor, wanted.name.c_str());
        gguf_add_tensor(header.get(), tensor);
    }
    std::vector<std::byte> bytes(gguf_get_meta_size(header.get()));
    gguf_get_meta_data(header.get(), bytes.data());
    return bytes;
}

/// Deals the tensors out in order, each shard getting at least one and about the same number of bytes.
std::vector<Shard> deal_out(const ModelPlan &plan, size_t count) {
    uint64_t total = 0;
    for (const TensorPlan &tensor : plan.tensors) {
        total += tensor_bytes(tensor);
    }
    std::vector<Shard> shards(count);
    const size_t tensors = plan.tensors.size();
    size_t current = 0;
    uint64_t dealt = 0;
    for (size_t i = 0; i < tensors; ++i) {
        const size_t later_shards = count - current - 1;
        const bool has_share =
            shards[current].last > shards[current].first && dealt * count >= total * (current + 1);
        if (later_shards > 0 && (has_share || tensors - i == later_shards)) {
            shards[++current].first = i;
        }
        shards[current].last = i + 1;
        dealt += tensor_bytes(plan.tensors[i]);
    }
    for (size_t number = 0; number < count; ++number) {
        Shard &shard = shards[number];
        shard.header = make_header(plan, shard, number, count);
        shard.bytes = shard.header.size();
        for (size_t i = shard.first; i < shard.last; ++i) {
            shard.bytes += padded(tensor_bytes(plan.tensors[i]));
        }
    }
    return shards;
}

std::string path_of_shard(const std::string &path, size_t number, size_t count) {
    constexpr std::string_view suffix = ".gguf";
    return gguf::shard_path(path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : path,
                            number, count);
}

std::string errno_text(int number) {
    return std::generic_category().message(number);
}

/// Writes shards one after the other and keeps the tally.
class Writer {
public:
    Writer(const ModelPlan &plan, uint64_t seed, uint64_t total,
           const std::function<bool(uint64_t, uint64_t)> &progress)
        : plan_(plan), seed_(seed), total_(total), progress_(progress), chunk_(chunk_bytes) {}

    Status write(const Shard &shard) {
        shard_ = &shard;
        in_shard_ = 0;
        errno = 0;
        file_.reset(std::fopen(shard.partial_path().c_str(), "wb"));
        if (!file_) {
            return write_error(errno);
        }
        Status status = put(shard.header);
        for (size_t i = shard.first; status && i < shard.last; ++i) {
            status = write_tensor(plan_.tensors[i]);
        }
        if (!status) {
            return status;
        }
        errno = 0;
        if (std::fclose(file_.release()) != 0) { // what the C library still held may not fit
            return write_error(errno);
        }
        return {};
    }

private:
    struct CloseFile {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };

    [[nodiscard]] tl::unexpected<Error> write_error(int number) const {
        return fail(ErrorCode::Io,
                    fmt::format("cannot write {} after {} of the {} bytes needed: {}", shard_->partial_path(),
                                in_shard_, shard_->bytes, errno_text(number)));
    }

    Status put(std::span<const std::byte> bytes) {
        errno = 0;
        const size_t count = std::fwrite(bytes.data(), 1, bytes.size(), file_.get());
        in_shard_ += count;
        done_ += count;
        if (count != bytes.size()) {
            return write_error(errno);
        }
        if (progress_ && !progress_(done_, total_)) {
            return fail(ErrorCode::Cancelled, fmt::format("writing {} was cancelled", shard_->path));
        }
        return {};
    }

    Status write_tensor(const TensorPlan &tensor) {
        const uint64_t bytes = tensor_bytes(tensor);
        WeightStream weights(tensor.type, tensor.fill, tensor.name, seed_);
        const size_t step = chunk_bytes / weights.granule() * weights.granule();
        for (uint64_t at = 0; at < bytes; at += step) {
            const auto length = static_cast<size_t>(std::min<uint64_t>(step, bytes - at));
            const std::span<std::byte> chunk = std::span(chunk_).first(length);
            weights.next(chunk);
            if (Status status = put(chunk); !status) {
                return status;
            }
        }
        constexpr std::array<std::byte, GGUF_DEFAULT_ALIGNMENT> zeros{};
        const auto padding = static_cast<size_t>(padded(bytes) - bytes);
        return padding == 0 ? Status{} : put(std::span(zeros).first(padding));
    }

    const ModelPlan &plan_;
    uint64_t seed_;
    uint64_t total_;
    uint64_t done_ = 0;
    const std::function<bool(uint64_t, uint64_t)> &progress_;
    std::vector<std::byte> chunk_;
    const Shard *shard_ = nullptr;
    uint64_t in_shard_ = 0;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

Status check_space(const std::string &path, uint64_t needed) {
    std::error_code unknown;
    const fs::path parent = fs::path(path).parent_path();
    const fs::space_info space = fs::space(parent.empty() ? fs::path(".") : parent, unknown);
    if (!unknown && space.available < needed) {
        return fail(ErrorCode::Io, fmt::format("{} needs {} bytes, but its file system has only {} free",
                                               path, needed, space.available));
    }
    return {};
}

Status check_targets(const std::vector<Shard> &shards) {
    for (const Shard &shard : shards) {
        std::error_code unknown;
        if (fs::is_directory(shard.path, unknown)) {
            return fail(ErrorCode::InvalidArgument, fmt::format("{} is a directory", shard.path));
        }
        // The finished file is renamed to its place: a device, a pipe or a link there would be replaced, not
        // written.
        const fs::file_status status = fs::symlink_status(shard.path, unknown);
        if (fs::exists(status) && !fs::is_regular_file(status)) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{} exists and is not a regular file", shard.path));
        }
    }
    return {};
}

/// Renames from last to first: while the first is missing, the model cannot be taken for whole.
Status rename_all(const std::vector<Shard> &shards, Cleanup &cleanup) {
    for (size_t i = shards.size(); i-- > 0;) {
        std::error_code error;
        fs::rename(shards[i].partial_path(), shards[i].path, error);
        if (error) {
            return fail(ErrorCode::Io, fmt::format("cannot rename {} to {}: {}", shards[i].partial_path(),
                                                   shards[i].path, error.message()));
        }
        cleanup.renamed(i);
    }
    return {};
}

Result<std::string> write_model(const ModelRecipe &recipe, const std::string &path,
                                const std::function<bool(uint64_t, uint64_t)> &progress) {
    if (path.empty()) {
        return fail(ErrorCode::InvalidArgument, "a model needs a path to be written to");
    }
    const auto plan = plan_model(recipe);
    if (!plan) {
        return fail(plan.error());
    }
    const size_t most = std::min(max_shards, plan->tensors.size());
    if (recipe.shards < 1 || static_cast<size_t>(recipe.shards) > most) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("this model can be in 1 to {} files, not {}", most, recipe.shards));
    }
    const auto count = static_cast<size_t>(recipe.shards);
    std::vector<Shard> shards = deal_out(*plan, count);
    uint64_t total = 0;
    for (size_t number = 0; number < count; ++number) {
        shards[number].path = count == 1 ? path : path_of_shard(path, number, count);
        total += shards[number].bytes;
    }
    Status status = check_targets(shards);
    if (status) {
        status = check_space(shards[0].path, total);
    }
    if (!status) {
        return fail(status.error());
    }

    Cleanup cleanup(shards);
    {
        Writer writer(*plan, recipe.seed, total, progress); // closes its file before the cleanup
        for (size_t number = 0; status && number < count; ++number) {
            status = writer.write(shards[number]);
        }
    }
    if (status) {
        status = rename_all(shards, cleanup);
    }
    if (!status) {
        return fail(status.error());
    }
    cleanup.keep();
    return shards[0].path;
}

} // namespace

Result<std::string> make_model(const ModelRecipe &recipe, const std::string &path,
                               const std::function<bool(uint64_t, uint64_t)> &progress) {
    try {
        return write_model(recipe, path, progress);
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("not enough memory to write {}", path));
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("writing {} failed: {}", path, error.what()));
    }
}

} // namespace sluice::tools
