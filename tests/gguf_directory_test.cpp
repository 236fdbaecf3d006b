// The directory of a GGUF model: every byte where gguf itself finds it, over all shards.
#include "gguf/gguf_directory.h"

#include "support/directory_checks.h"
#include "support/fault_file.h"
#include "support/gguf_bytes.h"
#include "support/temp_file.h"
#include "tools/make_model.h"

#include "ggml.h"
#include "gguf.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>

namespace sluice::gguf {
namespace {

namespace fs = std::filesystem;
using platform::system_files;
using test::expect_refused;
using test::opened;
using test::ScratchDir;

/// A tensor's bytes, read through the directory.
std::string bytes_of(const GgufDirectory &directory, const TensorEntry &entry) {
    std::string bytes(entry.bytes, '\0');
    const Status status = platform::read_fully(*directory.shards()[entry.shard], entry.offset,
                                               std::as_writable_bytes(std::span(bytes)), bytes.size(),
                                               platform::Access::Buffered, nullptr);
    EXPECT_TRUE(status) << status.error().message;
    return bytes;
}

struct ContextDeleter {
    void operator()(gguf_context *context) const { gguf_free(context); }
    void operator()(ggml_context *context) const { ggml_free(context); }
};

/// Compares shard `number` of the directory with what gguf itself loads from `path`.
size_t expect_same_as_gguf(const GgufDirectory &directory, size_t number, const std::string &path) {
    ggml_context *raw = nullptr;
    const std::unique_ptr<gguf_context, ContextDeleter> loaded(
        gguf_init_from_file(path.c_str(), {/*no_alloc=*/false, &raw}));
    const std::unique_ptr<ggml_context, ContextDeleter> tensors(raw);
    EXPECT_NE(loaded, nullptr);
    const int64_t count = loaded ? gguf_get_n_tensors(loaded.get()) : 0;
    for (int64_t id = 0; id < count; ++id) {
        const char *name = gguf_get_tensor_name(loaded.get(), id);
        const ggml_tensor *expected = ggml_get_tensor(tensors.get(), name);
        const TensorEntry *entry = directory.find(name);
        if (entry == nullptr) {
            ADD_FAILURE() << name << " is not in the directory";
            continue;
        }
        EXPECT_EQ(entry->name, name);
        EXPECT_EQ(entry->type, expected->type);
        EXPECT_EQ(entry->shard, number);
        EXPECT_TRUE(std::equal(entry->shape.begin(), entry->shape.end(), expected->ne)) << name;
        EXPECT_EQ(entry->bytes, ggml_nbytes(expected));
        const std::string_view data(static_cast<const char *>(expected->data), ggml_nbytes(expected));
        EXPECT_TRUE(bytes_of(directory, *entry) == data) << name;
    }
    return static_cast<size_t>(count);
}

std::string made(const tools::ModelRecipe &recipe, const std::string &path) {
    const auto result = tools::make_model(recipe, path, {});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or("");
}

TEST(GgufDirectory, FindsEveryTensorWhereItsBytesAre) {
    const ScratchDir dir;
    for (const char *like : {"tiny-mixed", "tiny-gemma4", "tiny-gpt-oss"}) {
        const std::string path = made({.like = like}, dir / "model.gguf");
        const auto directory = opened(path);
        ASSERT_TRUE(directory);
        EXPECT_EQ(directory->shard_paths(), std::vector<std::string>{path});
        EXPECT_EQ(directory->file_bytes(), fs::file_size(path));
        EXPECT_EQ(expect_same_as_gguf(*directory, 0, path), directory->tensors().size());
        EXPECT_EQ(directory->find("no such tensor"), nullptr);
    }
}

TEST(GgufDirectory, FindsDataOfAnotherAlignment) {
    const ScratchDir dir;
    test::GgufBytes file;
    file.raw("GGUF").put<uint32_t>(3).put<uint64_t>(2).put<uint64_t>(2);
    file.raw(test::key("general.architecture", "test"));
    file.raw(test::key("general.alignment", test::Kv::U32, uint32_t{4096}));
    file.raw(test::tensor("a", {7, 3}, GGML_TYPE_F32, 0)).raw(test::tensor("b", {5}, GGML_TYPE_F32, 4096));
    file.pad(4096).raw(std::string(84, 'a')).pad(4096).raw(std::string(20, 'b')).pad(4096);
    const std::string path = dir.write("model.gguf", file.bytes());
    const auto directory = opened(path);
    ASSERT_TRUE(directory);
    EXPECT_EQ(expect_same_as_gguf(*directory, 0, path), 2U);
    EXPECT_EQ(bytes_of(*directory, *directory->find("b")), std::string(20, 'b'));
    EXPECT_EQ(directory->find("b")->offset, 8192U);
}

TEST(GgufDirectory, OpensAllShardsOfASplitModel) {
    const ScratchDir dir;
    const auto whole = opened(made({.like = "tiny-mixed"}, dir / "whole.gguf"));
    const std::string first = made({.like = "tiny-mixed", .shards = 3}, dir / "split.gguf");
    const auto split = opened(first);
    ASSERT_TRUE(whole && split);
    ASSERT_EQ(split->shard_paths().size(), 3U);
    EXPECT_EQ(split->shard_paths()[2], dir / "split-00003-of-00003.gguf");
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t number = 0; number < 3; ++number) {
        const std::string &path = split->shard_paths()[number];
        EXPECT_EQ(split->shards()[number]->path(), path);
        count += expect_same_as_gguf(*split, number, path);
        bytes += fs::file_size(path);
    }
    EXPECT_EQ(count, whole->tensors().size());
    EXPECT_EQ(count, split->tensors().size());
    EXPECT_EQ(bytes, split->file_bytes());
    for (const TensorEntry &entry : whole->tensors()) {
        const TensorEntry *same = split->find(entry.name);
        ASSERT_NE(same, nullptr) << entry.name;
        EXPECT_TRUE(bytes_of(*split, *same) == bytes_of(*whole, entry)) << entry.name;
    }
    EXPECT_EQ(split->header_integer("{arch}.expert_count"), 16U);
}

TEST(GgufDirectory, NamesTheShardThatIsMissing) {
    const ScratchDir dir;
    const std::string first = made({.like = "tiny-dense", .shards = 3}, dir / "model.gguf");
    fs::remove(dir / "model-00002-of-00003.gguf");
    expect_refused(first, ErrorCode::NotFound, dir / "model-00002-of-00003.gguf");
}

TEST(GgufDirectory, NamesTheFirstShardWhenGivenAnother) {
    const ScratchDir dir;
    made({.like = "tiny-dense", .shards = 3}, dir / "model.gguf");
    expect_refused(dir / "model-00002-of-00003.gguf", ErrorCode::InvalidFormat,
                   dir / "model-00001-of-00003.gguf");
}

TEST(GgufDirectory, RefusesShardsUnderWrongNames) {
    const ScratchDir dir;
    const std::string first = made({.like = "tiny-dense", .shards = 3}, dir / "model.gguf");
    fs::copy(first, dir / "renamed.gguf");
    expect_refused(dir / "renamed.gguf", ErrorCode::InvalidFormat, "-00001-of-00003.gguf");
    fs::copy(dir / "model-00003-of-00003.gguf", dir / "model-00002-of-00003.gguf",
             fs::copy_options::overwrite_existing);
    expect_refused(first, ErrorCode::InvalidFormat, dir / "model-00002-of-00003.gguf");
}

TEST(GgufDirectory, SaysWhichTensorATruncatedFileLacks) {
    const ScratchDir dir;
    const std::string path = made({.like = "tiny-dense"}, dir / "model.gguf");
    const uint64_t size = fs::file_size(path);
    fs::resize_file(path, size / 2);
    expect_refused(path, ErrorCode::InvalidFormat, "model.gguf is truncated: tensor blk.");
    expect_refused(path, ErrorCode::InvalidFormat, std::to_string(size / 2));
}

TEST(GgufDirectory, PassesOnWhatTheDeviceSaysWhenAReadFails) {
    const ScratchDir dir;
    const std::string first = made({.like = "tiny-dense", .shards = 2}, dir / "model.gguf");
    for (const std::string part : {"00001-of", "00002-of"}) {
        const auto plan = std::make_shared<platform::FaultPlan>();
        plan->add({.path_contains = part, .error_number = EIO});
        platform::FaultFileSystem files(plan);
        const auto directory = GgufDirectory::open(first, false, files);
        ASSERT_FALSE(directory);
        EXPECT_EQ(directory.error().code, ErrorCode::Io) << directory.error().message;
        EXPECT_NE(directory.error().message.find(part), std::string::npos) << directory.error().message;
    }
}

TEST(GgufDirectory, GoesOnAfterShortReads) {
    const ScratchDir dir;
    const std::string path = made({.like = "tiny-mixed"}, dir / "model.gguf");
    const auto plan = std::make_shared<platform::FaultPlan>();
    plan->add({.nth = 1, .short_by = 1000});
    platform::FaultFileSystem files(plan);
    const auto directory = GgufDirectory::open(path, false, files);
    ASSERT_TRUE(directory) << directory.error().message;
    EXPECT_EQ(plan->counts().struck, 1U);
    expect_same_as_gguf(**directory, 0, path);
}

} // namespace
} // namespace sluice::gguf
