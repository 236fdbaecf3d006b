// One file that calls itself a model.

#include "fuzz_check.h"
#include "memory_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice::fuzz;
    be_silent();
    MemoryFiles files({{"model.gguf", text_of(data, size)}});
    if (const auto directory = sluice::gguf::GgufDirectory::open("model.gguf", false, files)) {
        require_sound(**directory);
        (void)(*directory)->header_integer("{arch}.block_count");
        (void)(*directory)->header_integer("general.alignment");
        (void)(*directory)->header_string("general.architecture");
    }
    return 0;
}
