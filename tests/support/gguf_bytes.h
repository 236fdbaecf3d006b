// Builds GGUF files byte by byte, so that tests can say what no correct writer would.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// One value after the other, little endian.
class GgufBytes {
public:
    template <typename T>
    GgufBytes &put(T value) {
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    GgufBytes &text(std::string_view value) {
        put<uint64_t>(value.size());
        bytes_.append(value);
        return *this;
    }
    GgufBytes &raw(std::string_view value) {
        bytes_.append(value);
        return *this;
    }
    GgufBytes &pad(size_t alignment = 32) {
        bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
        return *this;
    }
    [[nodiscard]] const std::string &bytes() const { return bytes_; }

private:
    std::string bytes_;
};

/// The value types of GGUF, as the file format numbers them.
enum class Kv : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

template <typename T>
std::string key(std::string_view name, Kv type, T value) {
    return GgufBytes().text(name).put(static_cast<uint32_t>(type)).put(value).bytes();
}
inline std::string key(std::string_view name, std::string_view value) {
    return GgufBytes().text(name).put(static_cast<uint32_t>(Kv::String)).text(value).bytes();
}
template <typename T>
std::string array_key(std::string_view name, Kv element, uint64_t count, const std::vector<T> &values) {
    GgufBytes bytes;
    bytes.text(name).put(static_cast<uint32_t>(Kv::Array)).put(static_cast<uint32_t>(element)).put(count);
    for (const T &value : values) {
        bytes.put(value);
    }
    return bytes.bytes();
}
inline std::string tensor(std::string_view name, const std::vector<int64_t> &shape, int32_t type,
                          uint64_t offset) {
    GgufBytes bytes;
    bytes.text(name).put(static_cast<uint32_t>(shape.size()));
    for (const int64_t size : shape) {
        bytes.put(size);
    }
    return bytes.put(type).put(offset).bytes();
}

/// A file of keys, tensor descriptions and data, each given as bytes.
inline std::string gguf(const std::vector<std::string> &keys, const std::vector<std::string> &tensors,
                        std::string_view data) {
    GgufBytes bytes;
    bytes.raw("GGUF").put<uint32_t>(3).put<uint64_t>(tensors.size()).put<uint64_t>(keys.size());
    for (const std::string &part : keys) {
        bytes.raw(part);
    }
    for (const std::string &part : tensors) {
        bytes.raw(part);
    }
    return bytes.pad().raw(data).bytes();
}

} // namespace sluice::test
