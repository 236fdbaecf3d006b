#include "support/altered_model.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

namespace sluice::test {

namespace {

std::vector<std::string> texts(const gguf_context *header, const char *key) {
    const int64_t id = gguf_find_key(header, key);
    std::vector<std::string> all;
    for (size_t i = 0; id >= 0 && i < gguf_get_arr_n(header, id); ++i) {
        all.emplace_back(gguf_get_arr_str(header, id, i));
    }
    return all;
}

void set_texts(gguf_context *header, const char *key, const std::vector<std::string> &all) {
    std::vector<const char *> pointers;
    for (const std::string &text : all) {
        pointers.push_back(text.c_str());
    }
    gguf_set_arr_str(header, key, pointers.data(), pointers.size());
}

} // namespace

AlteredModel::AlteredModel(std::string model) : model_(std::move(model)) {
    header_ = gguf_init_from_file(model_.c_str(), {/*no_alloc=*/true, /*ctx=*/&tensors_});
    if (header_ == nullptr) {
        throw std::runtime_error("cannot read " + model_);
    }
    data_offset_ = gguf_get_data_offset(header_);
}

AlteredModel::~AlteredModel() {
    gguf_free(header_);
    ggml_free(tensors_);
}

std::vector<std::string> AlteredModel::tensors() const {
    std::vector<std::string> names;
    for (int64_t id = 0; id < gguf_get_n_tensors(header_); ++id) {
        names.emplace_back(gguf_get_tensor_name(header_, id));
    }
    return names;
}

void AlteredModel::set(const std::string &key, const std::string &text) {
    gguf_set_val_str(header_, key.c_str(), text.c_str());
}

void AlteredModel::set_true(const std::string &key) {
    gguf_set_val_bool(header_, key.c_str(), true);
}

void AlteredModel::make_control_tokens(const std::vector<std::string> &names) {
    constexpr int32_t kControl = 3; // of llama.cpp's types of token
    std::vector<std::string> tokens = texts(header_, "tokenizer.ggml.tokens");
    const int64_t id = gguf_find_key(header_, "tokenizer.ggml.token_type");
    const auto *old = static_cast<const int32_t *>(gguf_get_arr_data(header_, id));
    std::vector<int32_t> types(old, old + gguf_get_arr_n(header_, id));
    for (size_t i = 0; i < names.size(); ++i) {
        tokens.at(tokens.size() - names.size() + i) = names[i];
        types.at(types.size() - names.size() + i) = kControl;
    }
    const std::set<std::string> there(tokens.begin(), tokens.end());
    std::vector<std::string> merges = texts(header_, "tokenizer.ggml.merges");
    std::erase_if(merges, [&there](std::string merge) { // its token is gone
        merge.erase(merge.find(' '), 1);
        return !there.contains(merge);
    });
    set_texts(header_, "tokenizer.ggml.tokens", tokens);
    set_texts(header_, "tokenizer.ggml.merges", merges);
    gguf_set_arr_data(header_, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
}

void AlteredModel::spoil(const std::string &tensor, std::optional<int64_t> row) {
    const int64_t id = gguf_find_tensor(header_, tensor.c_str());
    if (id < 0) {
        throw std::runtime_error(model_ + " has no " + tensor);
    }
    const size_t row_bytes = ggml_get_tensor(tensors_, tensor.c_str())->nb[1];
    const uint64_t offset = gguf_get_tensor_offset(header_, id);
    spoiled_.emplace_back(row ? offset + static_cast<uint64_t>(*row) * row_bytes : offset,
                          row ? row_bytes : gguf_get_tensor_size(header_, id));
}

void AlteredModel::write(const std::string &path) const {
    std::string meta(gguf_get_meta_size(header_), '\0');
    gguf_get_meta_data(header_, meta.data());
    std::ifstream from(model_, std::ios::binary);
    from.seekg(static_cast<std::streamoff>(data_offset_));
    std::ofstream to(path, std::ios::binary);
    to << meta << from.rdbuf();
    for (const auto &[offset, bytes] : spoiled_) {
        to.seekp(static_cast<std::streamoff>(meta.size() + offset));
        to << std::string(bytes, '\xFF');
    }
    if (!to.flush()) {
        throw std::runtime_error("cannot write " + path);
    }
}

} // namespace sluice::test
