// Files for tests: made in a temporary place, filled with bytes that tell their offset, removed at the end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace sluice::test {

/// The byte that a patterned file holds at `offset`; neighbours, blocks and pages all differ.
inline std::byte pattern(uint64_t offset) {
    return static_cast<std::byte>((offset * 0x9E3779B97F4A7C15u) >> 56);
}

/// Where `bytes`, read at `offset` of a patterned file, first differs from it; bytes.size() if nowhere.
inline size_t first_wrong(std::span<const std::byte> bytes, uint64_t offset) {
    for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != pattern(offset + i)) {
            return i;
        }
    }
    return bytes.size();
}

/// A directory of its own under `parent`, removed with all it holds.
class ScratchDir {
public:
    explicit ScratchDir(const std::string &parent = ::testing::TempDir()) {
        std::string name = (std::filesystem::path(parent) / "sluice-test-XXXXXX").string();
        path_ = ::mkdtemp(name.data()) != nullptr ? name : std::string();
    }
    ~ScratchDir() {
        std::error_code ignored;
        if (!path_.empty()) {
            std::filesystem::remove_all(path_, ignored);
        }
    }
    ScratchDir(const ScratchDir &) = delete;
    ScratchDir &operator=(const ScratchDir &) = delete;

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] std::string operator/(std::string_view name) const {
        return path_ + "/" + std::string(name);
    }

    /// Writes `text` to a file below, making the directories on the way; returns its path.
    std::string write(std::string_view name, std::string_view text) const {
        const std::string path = *this / name;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    /// Writes a patterned file of `size` bytes; returns its path.
    std::string write_pattern(std::string_view name, size_t size) const {
        std::string text(size, '\0');
        for (size_t i = 0; i < size; ++i) {
            text[i] = static_cast<char>(pattern(i));
        }
        return write(name, text);
    }

private:
    std::string path_;
};

} // namespace sluice::test
