#include "streaming/weights/hidden_names.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::streaming {

void HiddenNames::hide(ggml_tensor *tensor, const std::function<bool(const std::string &)> &is_taken) {
    std::string hidden = fmt::format("streamed:{}", ever_hidden_++);
    while (is_taken(hidden)) {
        hidden += '~';
    }
    hidden_.push_back({.tensor = tensor, .data = tensor->data, .name = tensor->name});
    ggml_set_name(tensor, hidden.c_str());
}

void HiddenNames::forget(const void *base, size_t size) {
    const char *begin = static_cast<const char *>(base);
    hidden_.erase(std::remove_if(hidden_.begin(), hidden_.end(),
                                 [begin, size](const Hidden &hidden) {
                                     const char *data = static_cast<const char *>(hidden.data);
                                     return data >= begin && data < begin + size;
                                 }),
                  hidden_.end());
}

void HiddenNames::restore() {
    for (const Hidden &hidden : hidden_) {
        ggml_set_name(hidden.tensor, hidden.name.c_str());
    }
    hidden_.clear();
}

} // namespace sluice::streaming
