// A file system of what a fuzzer made up. It has what it was given and nothing else.
#pragma once

#include "platform/file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace sluice::fuzz {

class MemoryFile final : public platform::IFile {
public:
    MemoryFile(std::string path, std::string_view bytes) : path_(std::move(path)), bytes_(bytes) {}

    Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, platform::Access) override {
        const size_t count =
            offset >= bytes_.size() ? 0 : std::min<size_t>(into.size(), bytes_.size() - offset);
        if (count > 0) {
            std::memcpy(into.data(), bytes_.data() + offset, count);
        }
        return count;
    }
    Status map_over(uint64_t, std::span<std::byte>, platform::MapAdvice) override {
        return fail(ErrorCode::Unsupported, "not mapped");
    }
    [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
    [[nodiscard]] size_t alignment() const override { return 1; }
    [[nodiscard]] bool direct_trusted() const override { return false; }
    [[nodiscard]] const std::string &direct_refusal() const override { return path_; }
    [[nodiscard]] const std::string &path() const override { return path_; }

private:
    std::string path_;
    std::string_view bytes_;
};

/// Paths and bytes, which outlive it.
class MemoryFiles final : public platform::IFileSystem {
public:
    explicit MemoryFiles(std::map<std::string, std::string_view> files) : files_(std::move(files)) {}

    Result<std::unique_ptr<platform::IFile>> open(const std::string &path, bool) override {
        const auto file = files_.find(path);
        if (file == files_.end()) {
            return fail(ErrorCode::NotFound, path + " is not there");
        }
        return std::make_unique<MemoryFile>(path, file->second);
    }

private:
    std::map<std::string, std::string_view> files_;
};

} // namespace sluice::fuzz
