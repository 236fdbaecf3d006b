// Writes what the fuzzer begins with: tiny valid files, a folder for each target.
//
//   make_corpus FOLDER

#include "fuzz_models.h"
#include "options/option_table.h"
#include "support/gguf_bytes.h"

#include "ggml.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

using sluice::test::array_key;
using sluice::test::gguf;
using sluice::test::key;
using sluice::test::Kv;
using sluice::test::tensor;

std::string folder;

void write(const std::string &target, const std::string &name, const std::string &bytes) {
    std::filesystem::create_directories(folder + "/" + target);
    std::ofstream(folder + "/" + target + "/" + name, std::ios::binary) << bytes;
}

std::string architecture() {
    return key("general.architecture", "test");
}

void write_directories() {
    const std::string data(256, 'x');
    write("gguf_directory", "empty", gguf({architecture()}, {}, ""));
    write("gguf_directory", "tensors",
          gguf({architecture(), key("test.block_count", Kv::U32, uint32_t{2}),
                key("general.alignment", Kv::U32, uint32_t{32})},
               {tensor("a", {8}, GGML_TYPE_F32, 0), tensor("bank", {32, 1, 2}, GGML_TYPE_Q8_0, 32)}, data));
    write("gguf_directory", "arrays",
          gguf({architecture(), array_key<uint32_t>("test.block_count", Kv::U32, 2, {1, 2}),
                key("f", Kv::F32, 1.0F), key("b", Kv::Bool, uint8_t{1})},
               {tensor("a", {8, 2, 2, 2}, GGML_TYPE_F32, 0)}, data));
}

std::string shard(uint16_t number, const std::string &name) {
    return gguf({architecture(), key("split.no", Kv::U16, number), key("split.count", Kv::U16, uint16_t{2}),
                 key("split.tensors.count", Kv::I32, int32_t{2})},
                {tensor(name, {8}, GGML_TYPE_F32, 0)}, std::string(32, 'x'));
}

void write_shards() {
    const std::string first = shard(0, "a");
    const std::string cut{static_cast<char>(first.size() % 256), static_cast<char>(first.size() / 256)};
    write("split_headers", "two", cut + first + shard(1, "b"));
    write("split_headers", "same", cut + first + shard(1, "a"));
}

void write_options() {
    std::string all;
    for (const sluice::options::StreamOption &option : sluice::options::stream_options()) {
        for (const char *value : {"auto", "off", "on", "7", "0.5", "lru", "uring", "warm"}) {
            all += std::string(option.name) + "=" + value + "\n";
        }
        write("options", std::string(option.name), std::string(option.name) + "=4\n");
    }
    write("options", "all", all);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_corpus FOLDER\n");
        return 2;
    }
    folder = argv[1];
    write_directories();
    write_shards();
    const std::vector<sluice::residency::SliceKey> slices{{1, 7}, {0, 3}, {1, 0}};
    write("hot_set", "three",
          sluice::residency::hot_set_to_json(sluice::fuzz::kSomeFile, sluice::fuzz::two_banks(), slices));
    write("route_trace", "decode", "2 8\n1 0 3 4\n1 1 0 7\n1 0 1 2\n1 1 5 6\n");
    write("route_trace", "prefill", "2 8\n0 0 3 4\n0 0 1 2\n0 1 5 6\n0 1 5 7\n1 0 3 4\n");
    write_options();
    write("command_line", "numbers",
          "-m\nx\n-c\n512\n-n\n-1\n--threads\n2\n--ram-mb\n1000\n--cache-mb\n64\n--io-depth\n8\n--row-stream-"
          "mb\n0.5\n");
    write("command_line", "shares",
          "--drop-cold\n0.5\n--substitute\n0.1\n--temp\n0\n--top-p\n1e-3\n--seed\n7\n");
    return 0;
}
