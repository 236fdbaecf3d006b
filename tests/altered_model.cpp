// Writes a changed copy of the embedded model, or an adapter for it, for tests that are no C++:
//   altered_model MODEL COPY [--text KEY=TEXT] [--true KEY] [--control TOKEN]... [--spoil TENSOR[:ROW]]...
//   altered_model --adapter FILE

#include "support/altered_model.h"
#include "support/gguf_bytes.h"

#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void alter(const std::vector<std::string> &words) {
    sluice::test::AlteredModel model(words.at(0));
    std::vector<std::string> control;
    for (size_t i = 2; i + 1 < words.size(); i += 2) {
        const std::string &value = words[i + 1];
        if (words[i] == "--text") {
            const size_t equals = value.find('=');
            model.set(value.substr(0, equals), value.substr(equals + 1));
        } else if (words[i] == "--true") {
            model.set_true(value);
        } else if (words[i] == "--control") {
            control.push_back(value);
        } else if (words[i] == "--spoil") {
            const size_t colon = value.find(':');
            model.spoil(value.substr(0, colon),
                        colon == std::string::npos
                            ? std::nullopt
                            : std::optional<int64_t>(std::stoll(value.substr(colon + 1))));
        } else {
            throw std::invalid_argument(words[i]);
        }
    }
    if (!control.empty()) {
        model.make_control_tokens(control);
    }
    model.write(words.at(1));
}

/// Changes the queries of the first layer, and with them the text.
void write_adapter(const std::string &path) {
    using namespace sluice::test;
    constexpr int64_t kWidth = 256; // of the model, and of its queries
    constexpr int64_t kRank = 8;
    constexpr int32_t kF32 = 0;
    constexpr auto kCount = static_cast<size_t>(kWidth * kRank);
    GgufBytes data;
    for (size_t i = 0; i < 2 * kCount; ++i) {
        data.put(static_cast<float>(static_cast<int>(i * 7919 % 17) - 8) / 16.0F);
    }
    std::ofstream(path, std::ios::binary)
        << gguf({key("general.architecture", "qwen3moe"), key("general.type", "adapter"),
                 key("adapter.type", "lora"), key("adapter.lora.alpha", Kv::F32, 8.0F)},
                {tensor("blk.0.attn_q.weight.lora_a", {kWidth, kRank}, kF32, 0),
                 tensor("blk.0.attn_q.weight.lora_b", {kRank, kWidth}, kF32, kCount * sizeof(float))},
                data.bytes());
}

} // namespace

int main(int argc, char **argv) {
    try {
        const std::vector<std::string> words(argv + 1, argv + argc);
        words.at(0) == "--adapter" ? write_adapter(words.at(1)) : alter(words);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "altered_model: %s\n", error.what());
        return 1;
    }
    return 0;
}
