// What every target of the fuzzer needs.
#pragma once

#include "gguf/gguf_directory.h"

#include "ggml.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace sluice::fuzz {

/// A promise that was broken is a finding, as a crash is.
inline void require(bool kept, const char *promise) {
    if (!kept) {
        std::fprintf(stderr, "broken promise: %s\n", promise);
        std::abort();
    }
}

inline std::string_view text_of(const uint8_t *data, size_t size) {
    return {reinterpret_cast<const char *>(data), size};
}

/// gguf logs what it refuses, which is nearly everything here.
inline void be_silent() {
    ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
}

/// What GgufDirectory::open() promises of a directory that it gives.
inline void require_sound(const gguf::GgufDirectory &directory) {
    for (const gguf::TensorEntry &tensor : directory.tensors()) {
        require(tensor.shard < directory.shards().size(), "every tensor is in a shard");
        const uint64_t size = directory.shards()[tensor.shard]->size();
        require(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
                "every tensor is inside its file");
        const gguf::TensorEntry *found = directory.find(tensor.name);
        require(found == &tensor, "no name occurs twice");
    }
}

} // namespace sluice::fuzz
