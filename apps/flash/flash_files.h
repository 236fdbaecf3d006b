// The files of the flash panel that the program carries. The build makes them of apps/flash
// (cmake/make_flash.cmake).
#pragma once

#include <cstddef>
#include <span>

namespace sluice::flash {

struct FlashFile {
    const char *name;         ///< its path on the server, without the first slash
    const char *content_type; ///< as HTTP has it
    const unsigned char *data;
    size_t size;
};

/// The page first; empty if this build has no pages.
std::span<const FlashFile> flash_files();

} // namespace sluice::flash
