// Stands in for the flash panel's files in a build without their libraries.

#include "flash_files.h"

namespace sluice::flash {

std::span<const FlashFile> flash_files() {
    return {};
}

} // namespace sluice::flash
