#include "platform/open_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#ifdef __APPLE__
#include <fcntl.h>
#include <sys/param.h>
#endif

namespace sluice::platform {

namespace {

std::optional<FileKey> key_in(const struct stat &facts) {
    if (!S_ISREG(facts.st_mode)) {
        return std::nullopt;
    }
    return FileKey{.device = static_cast<uint64_t>(facts.st_dev),
                   .inode = static_cast<uint64_t>(facts.st_ino)};
}

#ifdef __APPLE__
constexpr const char *kDescriptors = "/dev/fd";
#else
constexpr const char *kDescriptors = "/proc/self/fd";
#endif

} // namespace

std::optional<FileKey> key_of(int descriptor) {
    struct stat facts = {};
    return ::fstat(descriptor, &facts) == 0 ? key_in(facts) : std::nullopt;
}

std::optional<FileKey> key_of(const std::string &path) {
    struct stat facts = {};
    return ::stat(path.c_str(), &facts) == 0 ? key_in(facts) : std::nullopt;
}

std::vector<OpenFile> open_regular_files() {
    std::vector<OpenFile> files;
    std::error_code failed;
    std::filesystem::directory_iterator entry(kDescriptors, failed);
    const std::filesystem::directory_iterator end;
    for (; !failed && entry != end; entry.increment(failed)) {
        const int descriptor = std::atoi(entry->path().filename().c_str());
        if (const auto key = key_of(descriptor)) {
            files.push_back({.descriptor = descriptor, .key = *key});
        }
    }
    std::sort(files.begin(), files.end(),
              [](const OpenFile &a, const OpenFile &b) { return a.descriptor < b.descriptor; });
    return files;
}

std::string path_of(int descriptor) {
#ifdef __APPLE__
    char path[MAXPATHLEN] = "";
    return ::fcntl(descriptor, F_GETPATH, path) == 0 ? std::string(path) : std::string();
#else
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::read_symlink(
        std::filesystem::path(kDescriptors) / std::to_string(descriptor), failed);
    // A file that was removed keeps its old name, with a remark behind it.
    return !failed && key_of(path.string()) == key_of(descriptor) ? path.string() : std::string();
#endif
}

bool is_mapped(const std::string &path) {
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(path, failed);
    const std::string &name = real.native();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; !failed && std::getline(maps, line);) {
        // The name is the rest of its line, behind blanks.
        if (line.ends_with(name) && line.size() > name.size() && line[line.size() - name.size() - 1] == ' ') {
            return true;
        }
    }
    return false;
}

} // namespace sluice::platform
