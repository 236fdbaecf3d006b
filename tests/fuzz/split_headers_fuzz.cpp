// Two files that call themselves the shards of one model: the first two bytes say where the second begins.

#include "fuzz_check.h"
#include "memory_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice::fuzz;
    if (size < 2) {
        return 0;
    }
    be_silent();
    const std::string_view both = text_of(data + 2, size - 2);
    const size_t cut = std::min<size_t>(both.size(), data[0] + data[1] * size_t{256});
    const std::string first = "model-00001-of-00002.gguf";
    MemoryFiles files({{first, both.substr(0, cut)}, {"model-00002-of-00002.gguf", both.substr(cut)}});
    if (const auto directory = sluice::gguf::GgufDirectory::open(first, false, files)) {
        require_sound(**directory);
    }
    return 0;
}
