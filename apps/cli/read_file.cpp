#include "read_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace sluice::cli {

Result<std::string> read_file(const std::string &path) {
    const std::unique_ptr<std::FILE, decltype([](std::FILE *file) { std::fclose(file); })> file(
        std::fopen(path.c_str(), "rb"));
    if (!file) {
        return fail(ErrorCode::NotFound, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    }
    std::string text;
    char part[4096];
    while (const size_t count = std::fread(part, 1, sizeof(part), file.get())) {
        text.append(part, count);
    }
    if (std::ferror(file.get()) != 0) {
        return fail(ErrorCode::Io, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
    return text;
}

} // namespace sluice::cli
