// llama.cpp's two functions about names of shards. The directory needs nothing else of it, and building all
// of it with another compiler and sanitizers takes longer than a run of the fuzzer. The tests of the
// directory use the real ones.

#include "llama.h"

#include <cstdio>
#include <string>

extern "C" int32_t llama_split_path(char *path, size_t size, const char *prefix, int32_t number,
                                    int32_t count) {
    const int length = std::snprintf(path, size, "%s-%05d-of-%05d.gguf", prefix, number + 1, count);
    return length > 0 && static_cast<size_t>(length) < size ? length : 0;
}

extern "C" int32_t llama_split_prefix(char *prefix, size_t size, const char *path, int32_t number,
                                      int32_t count) {
    char ending[64];
    std::snprintf(ending, sizeof ending, "-%05d-of-%05d.gguf", number + 1, count);
    const std::string whole = path;
    if (!whole.ends_with(ending)) {
        return 0;
    }
    return std::snprintf(prefix, size, "%s",
                         whole.substr(0, whole.size() - std::string(ending).size()).c_str());
}
