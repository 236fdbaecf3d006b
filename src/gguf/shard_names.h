// What the files of a split model are called: "PREFIX-00001-of-00003.gguf".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::gguf {

/// The path of shard `number`, from 0, of `count`.
std::string shard_path(const std::string &prefix, uint64_t number, uint64_t count);

/// What stands before the number in the path of that shard; empty if it is not called so.
std::optional<std::string> shard_prefix(const std::string &path, uint64_t number, uint64_t count);

} // namespace sluice::gguf
