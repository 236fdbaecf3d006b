#include "session/lossy.h"

#include <fmt/format.h>
#include <string>

namespace sluice::session {

Result<std::vector<llama_model_kv_override>> metadata_overrides(const LossyOptions &lossy,
                                                                const gguf::GgufDirectory &directory) {
    std::vector<llama_model_kv_override> overrides;
    if (lossy.n_expert_used > 0) {
        const uint64_t experts = directory.header_integer("{arch}.expert_count").value_or(0);
        if (lossy.n_expert_used > experts) {
            return fail(ErrorCode::InvalidArgument,
                        experts == 0 ? std::string("--n-expert-used: the model has no experts")
                                     : fmt::format("--n-expert-used {}: the model has {} experts",
                                                   lossy.n_expert_used, experts));
        }
        if (directory.header_is_array("{arch}.expert_used_count")) {
            return fail(ErrorCode::Unsupported, "--n-expert-used: the model's own number differs by layer, "
                                                "which llama.cpp lets nobody override");
        }
        llama_model_kv_override used{};
        used.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
        used.val_i64 = lossy.n_expert_used;
        const std::string key =
            directory.header_string("general.architecture").value_or("") + ".expert_used_count";
        key.copy(used.key, sizeof(used.key) - 1);
        overrides.push_back(used);
    }
    overrides.push_back({});
    return overrides;
}

} // namespace sluice::session

namespace sluice {

std::string LossyOptions::flags() const {
    std::string text;
    const auto add = [&text](const std::string &part) { text += (text.empty() ? "" : " ") + part; };
    if (n_expert_used > 0) {
        add(fmt::format("--n-expert-used {}", n_expert_used));
    }
    if (drop_cold > 0) {
        add(fmt::format("--drop-cold {}", drop_cold));
    }
    if (substitute > 0) {
        add(fmt::format("--substitute {}", substitute));
    }
    if (route_source != nullptr) {
        add("routes from elsewhere");
    }
    return text;
}

} // namespace sluice
