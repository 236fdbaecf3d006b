// The regular files that this process holds open, whoever opened them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::platform {

/// One file on this machine, whatever it is called. Plain data.
struct FileKey {
    uint64_t device = 0;
    uint64_t inode = 0;
    auto operator<=>(const FileKey &) const = default;
};

struct OpenFile {
    int descriptor = -1;
    FileKey key;
};

/// What is behind `descriptor`; empty if it is closed or no regular file. Thread-safe.
std::optional<FileKey> key_of(int descriptor);

/// What `path` leads to; empty if nothing or no regular file. Thread-safe.
std::optional<FileKey> key_of(const std::string &path);

/// All of them, by rising descriptor; empty where the system does not tell. Thread-safe; others may open and
/// close files meanwhile.
std::vector<OpenFile> open_regular_files();

/// Where the file behind `descriptor` is, empty if the system does not tell or it has no name any more.
/// Thread-safe.
std::string path_of(int descriptor);

/// Whether some part of the file is mapped into this process; false where the system does not tell.
/// Thread-safe.
bool is_mapped(const std::string &path);

} // namespace sluice::platform
