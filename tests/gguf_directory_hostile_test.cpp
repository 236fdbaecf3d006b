// Directories of files that no correct writer would make: refused in a sentence, never trusted.
#include "gguf/gguf_directory.h"

#include "support/directory_checks.h"
#include "support/gguf_bytes.h"
#include "support/temp_file.h"

#include "ggml.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <memory>

namespace sluice::gguf {
namespace {

using platform::system_files;
using test::array_key;
using test::expect_refused;
using test::gguf;
using test::key;
using test::Kv;
using test::opened;
using test::ScratchDir;
using test::tensor;

const std::string architecture = key("general.architecture", "test");
const std::string two_shards = key("split.count", Kv::U16, uint16_t{2});

/// Writes a file anew; some file systems wait for the disk when an old one is cut to nothing instead.
std::string rewrite(const ScratchDir &dir, const std::string &name, const std::string &bytes) {
    std::filesystem::remove(dir / name);
    return dir.write(name, bytes);
}

std::string split_no(uint16_t number) {
    return key("split.no", Kv::U16, number);
}

void expect_bytes_refused(const std::string &bytes, const std::string &part) {
    const ScratchDir dir;
    expect_refused(dir.write("model.gguf", bytes), ErrorCode::InvalidFormat, part);
}

TEST(GgufDirectoryOfHostileFile, RefusesATensorThatIsInTwoShards) {
    const ScratchDir dir;
    const std::string weight = tensor("same", {8}, GGML_TYPE_F32, 0);
    const std::string data(32, 'x');
    const auto shard = [&](uint16_t number) {
        return gguf({architecture, split_no(number), two_shards}, {weight}, data);
    };
    const std::string first = dir.write("m-00001-of-00002.gguf", shard(0));
    dir.write("m-00002-of-00002.gguf", shard(1));
    expect_refused(first, ErrorCode::InvalidFormat, "tensor same is in the model twice");
}

TEST(GgufDirectoryOfHostileFile, RefusesFewerTensorsThanPromised) {
    const ScratchDir dir;
    const auto shard = [](uint16_t number, const std::string &name) {
        return gguf(
            {architecture, split_no(number), two_shards, key("split.tensors.count", Kv::I32, int32_t{3})},
            {tensor(name, {8}, GGML_TYPE_F32, 0)}, std::string(32, 'x'));
    };
    const std::string first = dir.write("m-00001-of-00002.gguf", shard(0, "a"));
    dir.write("m-00002-of-00002.gguf", shard(1, "b"));
    expect_refused(first, ErrorCode::InvalidFormat, "promises 3 tensors");
}

TEST(GgufDirectoryOfHostileFile, RefusesSplitNumbersThatMakeNoSense) {
    const auto with_keys = [](const std::string &number, const std::string &count) {
        return gguf({architecture, number, count}, {}, "");
    };
    const std::string first = key("split.no", Kv::U16, uint16_t{0});
    for (const std::string &bytes : {
             with_keys(first, key("split.count", "two")),
             with_keys(first, key("split.count", Kv::U64, std::numeric_limits<uint64_t>::max())),
             with_keys(first, key("split.count", Kv::I32, int32_t{-2})),
             with_keys(key("split.no", Kv::U16, uint16_t{2}), key("split.count", Kv::U16, uint16_t{2})),
             with_keys(key("split.nothing", "x"), key("split.count", Kv::U16, uint16_t{2})),
         }) {
        expect_bytes_refused(bytes, "split.no and split.count make no sense");
    }
    const ScratchDir dir;
    EXPECT_TRUE(opened(dir.write("model.gguf", with_keys(first, key("split.count", Kv::U16, uint16_t{1})))));
}

TEST(GgufDirectoryOfHostileFile, ReportsWhatIsNotAGgufFile) {
    const ScratchDir dir;
    expect_refused(dir / "missing.gguf", ErrorCode::NotFound, "missing.gguf");
    expect_refused(dir.path(), ErrorCode::InvalidFormat, dir.path());
    for (const char *content : {"", "GGU", "GGML and more than a header's worth of bytes", "<html></html>"}) {
        expect_refused(dir.write("model.gguf", content), ErrorCode::InvalidFormat,
                       "model.gguf is not a GGUF file");
    }
}

std::string small_model() {
    return gguf({architecture, key("test.block_count", Kv::U32, uint32_t{1}),
                 array_key<uint32_t>("test.lengths", Kv::U32, 2, {5, 6}), key("general.name", "small")},
                {tensor("a", {32, 2}, GGML_TYPE_Q8_0, 0), tensor("b", {5}, GGML_TYPE_F32, 96)},
                std::string(96 + 20, 'x'));
}

TEST(GgufDirectoryOfHostileFile, RefusesAFileCutShortAtAnyLength) {
    const ScratchDir dir;
    const std::string whole = small_model();
    ASSERT_TRUE(opened(dir.write("whole.gguf", whole)));
    for (size_t length = 0; length < whole.size(); ++length) {
        const auto directory =
            GgufDirectory::open(rewrite(dir, "cut.gguf", whole.substr(0, length)), false, system_files());
        ASSERT_FALSE(directory) << length;
        EXPECT_EQ(directory.error().code, ErrorCode::InvalidFormat) << length;
        EXPECT_NE(directory.error().message.find("cut.gguf"), std::string::npos);
    }
}

/// Opens a file that may or may not be valid; whatever comes out must be safe to use.
void expect_safe(const std::string &path, size_t &accepted) {
    const auto directory = GgufDirectory::open(path, false, system_files());
    if (!directory) {
        EXPECT_FALSE(directory.error().message.empty());
        return;
    }
    ++accepted;
    for (const TensorEntry &entry : (*directory)->tensors()) {
        const uint64_t size = (*directory)->shards()[entry.shard]->size();
        EXPECT_LE(entry.offset, size);
        EXPECT_LE(entry.bytes, size - entry.offset);
    }
    for (const char *name : {"{arch}.block_count", "test.lengths", "general.name", "general.architecture"}) {
        (void)(*directory)->header_integer(name);
        (void)(*directory)->header_string(name);
    }
}

TEST(GgufDirectoryOfHostileFile, SurvivesEveryDamagedByte) {
    const ScratchDir dir;
    const std::string whole = small_model();
    size_t accepted = 0;
    for (size_t at = 0; at < whole.size() - 116; ++at) {
        for (const int value : {0x00, 0x01, 0x04, 0x08, 0x09, 0x20, 0x7f, 0x80, 0xfe, 0xff}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(value);
            expect_safe(rewrite(dir, "damaged.gguf", damaged), accepted);
        }
    }
    EXPECT_GT(accepted, 0U); // some bytes, such as those of names, may be anything
}

TEST(GgufDirectoryOfHostileFile, RefusesCountsAndLengthsBeyondTheFile) {
    const auto start = [](uint64_t tensors, uint64_t keys) {
        return test::GgufBytes().raw("GGUF").put<uint32_t>(3).put(tensors).put(keys);
    };
    constexpr uint64_t huge = std::numeric_limits<uint64_t>::max();
    const std::string damaged = "damaged or truncated GGUF header";
    for (const uint64_t count : {huge, huge / 2, huge / 400, uint64_t{1} << 32, uint64_t{60000}}) {
        expect_bytes_refused(start(count, 0).bytes(), damaged);
        expect_bytes_refused(start(0, count).bytes(), damaged);
        expect_bytes_refused(start(0, 1).put(count).raw("key").bytes(), damaged);
        expect_bytes_refused(start(0, 1).text("key").put<uint32_t>(8).put(count).bytes(), damaged);
        for (uint32_t type = 0; type < 14; ++type) {
            expect_bytes_refused(
                gguf({architecture, array_key<uint32_t>("k", static_cast<Kv>(type), count, {1})}, {}, ""),
                damaged);
        }
    }
}

TEST(GgufDirectoryOfHostileFile, RefusesImpossibleTensors) {
    const auto with = [](const std::vector<std::string> &tensors) {
        return gguf({architecture}, tensors, std::string(64, 'x'));
    };
    constexpr int64_t big = int64_t{1} << 32;
    // The products of these wrap around 64 bits, so that the tensor looks small.
    expect_bytes_refused(with({tensor("t", {big, big}, GGML_TYPE_F32, 0)}), "t has an impossible shape");
    expect_bytes_refused(with({tensor("t", {big, big, big, big}, GGML_TYPE_I8, 0)}),
                         "t has an impossible shape");
    expect_bytes_refused(with({tensor("t", {big, big / 2}, GGML_TYPE_Q8_0, 0)}), "GGUF");
    expect_bytes_refused(with({tensor("t", {-8}, GGML_TYPE_F32, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {8}, -1, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {8}, 4, 0)}), "damaged"); // a type that ggml gave up
    expect_bytes_refused(with({tensor("t", {8}, 31, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {8}, 100000, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {33}, GGML_TYPE_Q8_0, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {1, 1, 1, 1, 1}, GGML_TYPE_F32, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {8}, GGML_TYPE_F32, 32)}), "damaged");
    expect_bytes_refused(with({tensor(std::string(64, 'n'), {8}, GGML_TYPE_F32, 0)}), "damaged");
    expect_bytes_refused(with({tensor("t", {8}, GGML_TYPE_F32, 0), tensor("t", {8}, GGML_TYPE_F32, 32)}),
                         "damaged");
    expect_bytes_refused(with({tensor("t\x1b[2J", {17}, GGML_TYPE_F32, 0)}), "tensor t?[2J needs");
    const ScratchDir dir;
    EXPECT_TRUE(opened(dir.write("m.gguf", with({tensor("empty", {0}, GGML_TYPE_F32, 0)}))));
    EXPECT_TRUE(opened(dir.write("m.gguf", with({tensor("t", {16}, GGML_TYPE_F32, 0)}))));
}

TEST(GgufDirectoryOfHostileFile, RefusesKeysOfTheWrongKind) {
    const std::string alignment = "general.alignment";
    for (const std::string &bad :
         {key(alignment, Kv::U32, uint32_t{0}), key(alignment, Kv::U32, uint32_t{3}),
          key(alignment, Kv::U64, uint64_t{32}), key(alignment, "32"),
          array_key<uint32_t>(alignment, Kv::U32, 1, {32}), key("", "no name"), architecture}) {
        expect_bytes_refused(gguf({architecture, bad}, {}, ""), "damaged");
    }
    const std::string name = "general.architecture";
    for (const std::string &bad :
         {key(name, Kv::U32, uint32_t{7}), array_key<uint32_t>(name, Kv::U32, 1, {7}),
          array_key<uint64_t>(name, Kv::String, 1, {0}), key(name, ""), key("general.name", "nameless")}) {
        expect_bytes_refused(gguf({bad}, {}, ""), "does not name its architecture");
    }
}

TEST(GgufDirectoryOfHostileFile, RefusesOtherVersionsByNumber) {
    for (const uint32_t version : {0U, 1U, 4U, 0x03000000U}) {
        std::string bytes = small_model();
        bytes.replace(4, 4, reinterpret_cast<const char *>(&version), 4);
        expect_bytes_refused(bytes, "GGUF version " + std::to_string(version));
    }
}

TEST(GgufDirectoryOfHostileFile, HeaderValuesAreReadWhateverTheirType) {
    const ScratchDir dir;
    const auto directory = opened(dir.write(
        "model.gguf",
        gguf({architecture, key("u8", Kv::U8, uint8_t{200}), key("i8", Kv::I8, int8_t{-1}),
              key("u16", Kv::U16, uint16_t{60000}), key("i16", Kv::I16, int16_t{300}),
              key("test.u32", Kv::U32, uint32_t{4000000000}), key("i32", Kv::I32, int32_t{-5}),
              key("u64", Kv::U64, std::numeric_limits<uint64_t>::max()),
              key("i64", Kv::I64, int64_t{1} << 40), key("f32", Kv::F32, 1.0F),
              key("bool", Kv::Bool, int8_t{1}), key("string", "text"),
              array_key<int32_t>("list", Kv::I32, 2, {7, 8}), array_key<int32_t>("none", Kv::I32, 0, {}),
              array_key<float>("floats", Kv::F32, 1, {1}), array_key<uint64_t>("texts", Kv::String, 1, {0})},
             {}, "")));
    ASSERT_TRUE(directory);
    EXPECT_EQ(directory->header_integer("u8"), 200U);
    EXPECT_EQ(directory->header_integer("u16"), 60000U);
    EXPECT_EQ(directory->header_integer("i16"), 300U);
    EXPECT_EQ(directory->header_integer("{arch}.u32"), 4000000000U);
    EXPECT_EQ(directory->header_integer("u64"), std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(directory->header_integer("i64"), uint64_t{1} << 40);
    EXPECT_EQ(directory->header_integer("list"), 7U);
    for (const char *name : {"i8", "i32", "f32", "bool", "string", "none", "floats", "texts", "absent", ""}) {
        EXPECT_EQ(directory->header_integer(name), std::nullopt) << name;
    }
    EXPECT_EQ(directory->header_string("string"), "text");
    EXPECT_EQ(directory->header_string("general.architecture"), "test");
    for (const char *name : {"u8", "list", "texts", "absent"}) {
        EXPECT_EQ(directory->header_string(name), std::nullopt) << name;
    }
}

} // namespace
} // namespace sluice::gguf
