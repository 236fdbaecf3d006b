#include "gguf/shard_names.h"

#include <fmt/format.h>

namespace sluice::gguf {

namespace {

std::string ending(uint64_t number, uint64_t count) {
    return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

} // namespace

std::string shard_path(const std::string &prefix, uint64_t number, uint64_t count) {
    return prefix + ending(number, count);
}

std::optional<std::string> shard_prefix(const std::string &path, uint64_t number, uint64_t count) {
    const std::string end = ending(number, count);
    if (path.size() <= end.size() || !path.ends_with(end)) {
        return std::nullopt;
    }
    return path.substr(0, path.size() - end.size());
}

} // namespace sluice::gguf
