#include "embedded_model.h"

#include "platform/child_program.h"

#include <filesystem>
#include <string_view>
#include <vector>

namespace sluice::cli {

std::optional<std::string> embedded_model_path() {
    namespace fs = std::filesystem;
    constexpr const char *kFile = "tiny-moe-stories-54m-Q4_K_M.gguf";
    std::error_code ignored;
    const fs::path executable = platform::own_program();
    std::vector<fs::path> folders;
    if (!executable.empty()) {
        folders.push_back(executable.parent_path() / "models");
        folders.push_back(executable.parent_path().parent_path() / "share" / "sluice" / "models");
    }
    if (constexpr std::string_view kSources = SLUICE_SOURCE_MODELS; !kSources.empty()) {
        folders.emplace_back(kSources);
    }
    for (const fs::path &folder : folders) {
        if (fs::exists(folder / kFile, ignored)) {
            return (folder / kFile).string();
        }
    }
    return std::nullopt;
}

} // namespace sluice::cli
