// The file that tells a run what the one before held.

#include "fuzz_check.h"
#include "fuzz_models.h"
#include "residency/hot_set.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice;
    const auto banks = fuzz::two_banks();
    for (const residency::SliceKey &slice :
         residency::hot_set_from_json(fuzz::text_of(data, size), fuzz::kSomeFile, banks)) {
        fuzz::require(slice.bank < banks.size() && slice.expert < banks[slice.bank].expert_count,
                      "slices that the model does not have are left out");
    }
    return 0;
}
