#include "backend/streamed_store.h"

#include "ggml-cpu.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

namespace sluice::backend {

const ggml_tensor *view_root(const ggml_tensor *tensor) {
    while (tensor->view_src != nullptr) {
        tensor = tensor->view_src;
    }
    return tensor;
}

StreamedStore::StreamedStore(const model::GgufDirectory &directory, storage::IReadEngine &engine,
                             storage::Access access)
    : directory_(directory), engine_(engine), access_(access) {
}

bool StreamedStore::can_stream(const ggml_tensor *weight) const {
    const model::TensorEntry *entry = directory_.find(weight->name);
    return entry != nullptr && entry->type == weight->type && entry->bytes == ggml_nbytes(weight) &&
           ggml_is_contiguous(weight) && weight->ne[2] > 1 && weight->ne[3] == 1 &&
           std::equal(entry->shape.begin(), entry->shape.end(), weight->ne) &&
           ggml_get_type_traits_cpu(weight->type)->vec_dot != nullptr;
}

bool StreamedStore::adopt(ggml_tensor *tensor) {
    if (!can_stream(tensor)) {
        return false;
    }
    const model::TensorEntry *entry = directory_.find(tensor->name);
    auto streamed = std::make_unique<StreamedTensor>();
    streamed->tensor = tensor;
    streamed->name = tensor->name;
    streamed->data = tensor->data;
    streamed->bank = static_cast<residency::BankId>(banks_.size());
    banks_.push_back(residency::Bank{.name = streamed->name,
                                     .file = directory_.shards()[entry->shard].get(),
                                     .offset = entry->offset,
                                     .slice_bytes = tensor->nb[2],
                                     .expert_count = static_cast<uint32_t>(tensor->ne[2])});
    std::string hidden = fmt::format("streamed:{}", streamed->bank);
    while (directory_.find(hidden) != nullptr) {
        hidden += '~'; // the loader must not know it, whatever the file holds
    }
    ggml_set_name(tensor, hidden.c_str());
    tensors_[tensor] = std::move(streamed);
    return true;
}

void StreamedStore::abandon(const void *base, size_t size) {
    const char *begin = static_cast<const char *>(base);
    for (auto it = tensors_.begin(); it != tensors_.end();) {
        // The tensors themselves may be gone already: only what we noted is looked at.
        const char *data = static_cast<const char *>(it->second->data);
        it = data >= begin && data < begin + size ? tensors_.erase(it) : std::next(it);
    }
}

void StreamedStore::restore_names() {
    for (auto &[tensor, streamed] : tensors_) {
        ggml_set_name(streamed->tensor, streamed->name.c_str());
    }
}

StreamedTensor *StreamedStore::find(const ggml_tensor *tensor) {
    const auto it = tensors_.find(view_root(tensor));
    return it == tensors_.end() ? nullptr : it->second.get();
}

void StreamedStore::observe(const ggml_cgraph *graph) {
    std::vector<std::pair<const ggml_tensor *, residency::LayerNeed>> seen;
    for (int i = 0; i < graph->n_nodes; ++i) {
        const ggml_tensor *node = graph->nodes[i];
        const StreamedTensor *weight = node->op == GGML_OP_MUL_MAT_ID ? find(node->src[0]) : nullptr;
        if (weight == nullptr) {
            continue;
        }
        const ggml_tensor *ids = node->src[2];
        if (seen.empty() || seen.back().first != ids ||
            seen.back().second.banks.size() >= residency::kMaxBanksPerLayer) {
            seen.push_back({ids, {.banks = {}, .experts_per_token = static_cast<uint32_t>(ids->ne[0])}});
        }
        seen.back().second.banks.push_back(weight->bank);
    }
    const auto sorted = [](std::vector<residency::BankId> banks) {
        std::sort(banks.begin(), banks.end());
        return banks;
    };
    const std::lock_guard lock(setup_mutex_);
    for (auto &[ids, need] : seen) {
        // The prompt's graph and a token's may order a layer's banks differently.
        const auto same = [&, &need = need](const residency::LayerNeed &known) {
            return sorted(known.banks) == sorted(need.banks);
        };
        if (std::none_of(layers_.begin(), layers_.end(), same)) {
            layers_.push_back(std::move(need));
        }
    }
}

Status StreamedStore::ensure_cache(
    const std::function<uint64_t(const residency::SlotPlan &, uint64_t)> &choose_capacity) {
    const std::lock_guard lock(setup_mutex_);
    if (cache_ != nullptr || banks_.empty()) {
        return {};
    }
    const auto unlimited = residency::plan_slots(banks_, layers_, SIZE_MAX / 2, access_);
    if (!unlimited) {
        return fail(unlimited.error());
    }
    const uint64_t capacity = choose_capacity(*unlimited, residency::token_working_set(banks_, layers_));
    auto cache = residency::ExpertCache::create(
        banks_, {.capacity_bytes = capacity, .access = access_, .layers = layers_}, engine_);
    if (!cache) {
        return fail(cache.error());
    }
    cache_ = std::move(*cache);
    published_cache_.store(cache_.get(), std::memory_order_release);
    return {};
}

uint64_t StreamedStore::token_working_set() const {
    const std::lock_guard lock(setup_mutex_);
    return residency::token_working_set(banks_, layers_);
}

Status StreamedStore::read_weight(const StreamedTensor &weight, size_t offset, std::span<std::byte> into) {
    const residency::Bank &bank = banks_[weight.bank];
    return storage::read_fully(*bank.file, bank.offset + offset, into, into.size(), storage::Access::Buffered,
                               nullptr);
}

Status StreamedStore::materialize(StreamedTensor &weight, const std::string &why) {
    if (weight.materialized) {
        return {};
    }
    const size_t bytes = ggml_nbytes(weight.tensor);
    std::fprintf(stderr, "sluice: %s (%.1f MiB) is brought into memory whole because %s\n",
                 weight.name.c_str(), static_cast<double>(bytes) / (1024.0 * 1024.0), why.c_str());
    auto *data = static_cast<std::byte *>(weight.tensor->data);
    if (auto read = read_weight(weight, 0, {data, bytes}); !read) {
        return fail(read.error().with_context("cannot bring in " + weight.name));
    }
    weight.materialized = true;
    ++counters.materialized;
    return {};
}

uint64_t StreamedStore::streamed_bytes() const {
    uint64_t bytes = 0;
    for (const residency::Bank &bank : banks_) {
        bytes += uint64_t{bank.expert_count} * bank.slice_bytes;
    }
    return bytes;
}

void StreamedStore::set_error(Error error) {
    std::lock_guard lock(error_mutex_);
    if (!error_) {
        error_ = std::move(error);
        failed_.store(true, std::memory_order_release);
    }
}

std::optional<Error> StreamedStore::take_error() {
    std::lock_guard lock(error_mutex_);
    failed_.store(false, std::memory_order_release);
    return std::exchange(error_, std::nullopt);
}

} // namespace sluice::backend
