// The embedded model, with a key, a template, a tokenizer or a weight changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct ggml_context;
struct gguf_context;

namespace sluice::test {

/// A model file that is read, changed and written elsewhere. Throws std::runtime_error where that fails.
class AlteredModel {
public:
    explicit AlteredModel(std::string model);
    ~AlteredModel();
    AlteredModel(const AlteredModel &) = delete;
    AlteredModel &operator=(const AlteredModel &) = delete;

    [[nodiscard]] std::vector<std::string> tensors() const;

    void set(const std::string &key, const std::string &text);
    void set_true(const std::string &key);

    /// The last tokens of the vocabulary become control tokens of these names.
    void make_control_tokens(const std::vector<std::string> &names);

    /// Every byte of the weight, or of one of its rows, becomes 0xFF: no value in it is a number, whatever
    /// its type.
    void spoil(const std::string &tensor, std::optional<int64_t> row = {});

    void write(const std::string &path) const;

private:
    std::string model_;
    ggml_context *tensors_ = nullptr;
    gguf_context *header_ = nullptr;
    uint64_t data_offset_ = 0;                         ///< of the file that is read
    std::vector<std::pair<uint64_t, size_t>> spoiled_; ///< where in the data, and how many bytes
};

} // namespace sluice::test
