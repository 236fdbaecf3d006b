#include "streaming/weights/streamed_store.h"

#include "base/notice.h"

#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace sluice::streaming {

namespace {

double mebibytes(uint64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

/// What the mirror of a table, or of the file, keeps of `tensor`.
Status open_slabs(const ggml_tensor &tensor) {
    const size_t slab = residency::slab_bytes();
    auto *data = static_cast<std::byte *>(tensor.data);
    const size_t lead = reinterpret_cast<uintptr_t>(data) % slab;
    const size_t whole = (lead + ggml_nbytes(&tensor) + slab - 1) / slab * slab;
    return platform::ReservedMemory::open_pages({data - lead, whole});
}

} // namespace

std::span<std::byte> bytes_of(const StreamedTensor &weight) {
    return {static_cast<std::byte *>(weight.tensor->data), ggml_nbytes(weight.tensor)};
}

const ggml_tensor *view_root(const ggml_tensor *tensor) {
    while (tensor->view_src != nullptr) {
        tensor = tensor->view_src;
    }
    return tensor;
}

bool only_describes(ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_VIEW || op == GGML_OP_RESHAPE || op == GGML_OP_PERMUTE ||
           op == GGML_OP_TRANSPOSE;
}

bool is_graph_input(const ggml_tensor *tensor) {
    while (tensor->op != GGML_OP_NONE) {
        if (!only_describes(tensor->op)) {
            return false;
        }
        tensor = tensor->src[0];
    }
    return true;
}

Result<std::unique_ptr<StreamedStore>> StreamedStore::create(const gguf::GgufDirectory &directory,
                                                             StoreOptions options) {
    std::unique_ptr<StreamedStore> store(new StreamedStore(directory, std::move(options)));
    if (store->options_.placement.rows && !store->options_.dry) {
        auto rows = residency::RowWindow::create(store->options_.row_window_bytes, store->options_.access,
                                                 *store->options_.row_reads);
        if (!rows) {
            return fail(rows.error());
        }
        store->rows_ = std::move(*rows);
    }
    return store;
}

StreamedStore::StreamedStore(const gguf::GgufDirectory &directory, StoreOptions options)
    : placement(directory, options.placement), directory_(directory), options_(std::move(options)),
      lossy_(options_.lossy) {
}

size_t StreamedStore::reserved_bytes(const ggml_tensor *tensor) {
    // One slab to move within, and whole slabs at both ends.
    return ggml_nbytes(tensor) + 3 * residency::slab_bytes();
}

Status StreamedStore::adopt(ggml_tensor *tensor) {
    const Role *role = placement.role_of(tensor);
    const gguf::TensorEntry *entry = placement.entry_of(tensor);
    if (role == nullptr || entry == nullptr) {
        return fail(ErrorCode::Internal,
                    fmt::format("{} was placed in a streamed buffer though nobody wanted it", tensor->name));
    }
    const auto address = reinterpret_cast<uintptr_t>(tensor->data);
    const size_t slab = residency::slab_bytes();
    const size_t to_slab = (slab - address % slab) % slab;
    tensor->data = static_cast<std::byte *>(tensor->data) + to_slab + entry->offset % slab;

    auto streamed = std::make_unique<StreamedTensor>();
    streamed->tensor = tensor;
    streamed->name = tensor->name;
    streamed->data = tensor->data;
    streamed->role = *role;
    streamed->file = directory_.shards()[entry->shard].get();
    streamed->offset = entry->offset;
    switch (*role) {
    case Role::Experts:
        adopt_bank(*streamed);
        break;
    case Role::Rows:
        if (auto opened = open_slabs(*tensor); !opened) {
            return opened;
        }
        streamed->index = rows_->add({.name = streamed->name,
                                      .file = streamed->file,
                                      .offset = entry->offset,
                                      .bytes = entry->bytes,
                                      .data = static_cast<std::byte *>(tensor->data)});
        break;
    case Role::Dense:
        if (auto adopted = adopt_dense(*streamed); !adopted) {
            return adopted;
        }
        streamed->materialized = true;
        break;
    }
    const auto &kept = tensors_[tensor] = std::move(streamed);
    if (*role == Role::Dense) {
        dense_.push_back(kept.get());
    }
    if (*role != Role::Dense || options_.placement.map_dense) {
        // The loader must not know the new name, whatever the file holds.
        hidden_names_.hide(tensor,
                           [this](const std::string &name) { return directory_.find(name) != nullptr; });
    }
    return {};
}

void StreamedStore::adopt_bank(StreamedTensor &streamed) {
    streamed.index = static_cast<residency::BankId>(banks_.size());
    banks_.push_back(residency::Bank{.name = streamed.name,
                                     .file = streamed.file,
                                     .offset = streamed.offset,
                                     .slice_bytes = streamed.tensor->nb[2],
                                     .expert_count = static_cast<uint32_t>(streamed.tensor->ne[2])});
    if (options_.repack_experts && !options_.dry) {
        find_layout(streamed);
    }
}

/// Banks of one type and shape share a layout, or that there is none.
void StreamedStore::find_layout(StreamedTensor &streamed) {
    const ggml_tensor *bank = streamed.tensor;
    const auto [known, is_new] = layouts_.try_emplace({bank->type, bank->ne[0], bank->ne[1], bank->ne[2]});
    if (is_new) {
        std::string why; // it stays as in the file, as it does in stock
        known->second = ExpertLayout::find(bank, why);
    }
    streamed.layout = known->second;
}

/// Mapped where asked for; otherwise the loader reads it, since its name stays.
Status StreamedStore::adopt_dense(StreamedTensor &streamed) {
    const size_t bytes = ggml_nbytes(streamed.tensor);
    if (auto opened = open_slabs(*streamed.tensor); !opened) {
        return opened;
    }
    auto *data = static_cast<std::byte *>(streamed.tensor->data);
    if (!options_.placement.map_dense) {
        resident_dense_bytes_ += bytes;
        platform::ReservedMemory::advise_filled({data, bytes});
        return {};
    }
    mapped_bytes_ += bytes;
    streamed.mapped = true;
    const size_t page = platform::page_size();
    const size_t lead = streamed.offset % page;
    const size_t whole = (lead + bytes + page - 1) / page * page;
    return streamed.file->map_over(streamed.offset - lead, {data - lead, whole}, platform::MapAdvice::Normal);
}

void StreamedStore::abandon(const void *base, size_t size) {
    const char *begin = static_cast<const char *>(base);
    // The tensors themselves may be gone already: only what we noted is looked at.
    const auto goes = [begin, size](const StreamedTensor &streamed) {
        const char *data = static_cast<const char *>(streamed.data);
        return data >= begin && data < begin + size;
    };
    hidden_names_.forget(base, size);
    dense_.erase(
        std::remove_if(dense_.begin(), dense_.end(), [&](const auto *weight) { return goes(*weight); }),
        dense_.end());
    std::erase_if(tensors_, [&](const auto &entry) { return goes(*entry.second); });
}

void StreamedStore::loading_ended() {
    hidden_names_.restore();
    if (options_.dry) {
        tensors_.clear();
    }
}

StreamedTensor *StreamedStore::find(const ggml_tensor *tensor) {
    const ggml_tensor *root = view_root(tensor);
    const auto it = tensors_.find(root);
    if (it == tensors_.end()) {
        return options_.dry ? find_dry(root) : nullptr;
    }
    return it->second.get();
}

/// A dry store meets its weights in graphs, without memory behind them.
StreamedTensor *StreamedStore::find_dry(const ggml_tensor *root) {
    const Role *role = placement.role_of(root);
    const gguf::TensorEntry *entry = placement.entry_of(root);
    if (role == nullptr || entry == nullptr) {
        return nullptr;
    }
    auto streamed = std::make_unique<StreamedTensor>();
    streamed->tensor = const_cast<ggml_tensor *>(root); // ours to point to, as the loader would have given it
    streamed->name = root->name;
    streamed->role = *role;
    streamed->file = directory_.shards()[entry->shard].get();
    streamed->offset = entry->offset;
    if (*role == Role::Experts) {
        adopt_bank(*streamed);
    } else if (*role == Role::Dense) {
        (options_.placement.map_dense ? mapped_bytes_ : resident_dense_bytes_) += ggml_nbytes(root);
    }
    return (tensors_[root] = std::move(streamed)).get();
}

Result<CacheNeeds> StreamedStore::cache_needs() const {
    const std::lock_guard lock(setup_mutex_);
    auto unlimited = residency::plan_slots(banks_, layers_, SIZE_MAX / 2, options_.access);
    if (!unlimited) {
        return fail(unlimited.error());
    }
    return CacheNeeds{std::move(*unlimited), residency::token_working_set(banks_, layers_)};
}

void StreamedStore::observe_sources(const ggml_tensor *node) {
    for (const ggml_tensor *source : node->src) {
        const ggml_tensor *root = source == nullptr ? nullptr : view_root(source);
        if (root != nullptr && root->buffer != nullptr &&
            ggml_backend_buffer_get_usage(root->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
            !tensors_.contains(root)) {
            weight_buffers_.insert(root->buffer);
        }
    }
}

void StreamedStore::observe(const ggml_cgraph *graph) {
    std::vector<std::pair<const ggml_tensor *, residency::LayerNeed>> seen;
    const std::lock_guard lock(setup_mutex_);
    for (int i = 0; i < graph->n_nodes; ++i) {
        const ggml_tensor *node = graph->nodes[i];
        observe_sources(node);
        const bool looks = node->op == GGML_OP_MUL_MAT_ID || node->op == GGML_OP_GET_ROWS;
        const StreamedTensor *weight = looks ? find(node->src[0]) : nullptr;
        if (options_.on_dry_node) {
            const bool streamed =
                weight != nullptr && weight->role == Role::Experts && node->op == GGML_OP_MUL_MAT_ID;
            options_.on_dry_node(graph, i, streamed);
        }
        if (weight != nullptr && weight->role == Role::Rows) {
            RowTableState &state = row_states_[weight->name];
            (is_graph_input(node->src[1]) ? state.index_is_input : state.index_is_computed) = true;
        }
        if (weight == nullptr || weight->role != Role::Experts || node->op != GGML_OP_MUL_MAT_ID) {
            continue;
        }
        const ggml_tensor *ids = node->src[2];
        if (seen.empty() || seen.back().first != ids ||
            seen.back().second.banks.size() >= residency::kMaxBanksPerLayer) {
            seen.push_back({ids, {.banks = {}, .experts_per_token = static_cast<uint32_t>(ids->ne[0])}});
        }
        std::vector<residency::BankId> &banks = seen.back().second.banks;
        if (std::find(banks.begin(), banks.end(), weight->index) == banks.end()) {
            banks.push_back(weight->index);
        }
    }
    const auto sorted = [](std::vector<residency::BankId> banks) {
        std::sort(banks.begin(), banks.end());
        return banks;
    };
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
    if (banks_.empty()) {
        return {};
    }
    const auto needs = cache_needs();
    if (!needs) {
        return fail(needs.error());
    }
    const std::lock_guard lock(setup_mutex_);
    if (cache_ != nullptr) {
        return {};
    }
    const uint64_t capacity = choose_capacity(needs->unlimited, needs->working_set_bytes);
    auto cache = residency::ExpertCache::create(
        banks_,
        {.capacity_bytes = capacity, .access = options_.access, .layers = layers_, .policy = options_.policy},
        *options_.expert_reads);
    if (!cache) {
        return fail(cache.error());
    }
    cache_ = std::move(*cache);
    if (options_.route_sink != nullptr) {
        uint32_t experts = 0;
        for (const residency::RoutingLayout::Layer &layer : cache_->layout().layers) {
            experts = std::max(experts, layer.expert_count);
        }
        options_.route_sink->begin(static_cast<uint32_t>(cache_->layout().layers.size()), experts);
    }
    published_cache_.store(cache_.get(), std::memory_order_release);
    return {};
}

std::byte *StreamedStore::workspace(size_t bytes) {
    if (workspace_.size() < bytes) {
        workspace_ = std::vector<std::byte>(); // the old one goes first
        workspace_.resize(bytes);
    }
    return workspace_.data();
}

void StreamedStore::routed(residency::BankId bank, std::span<const uint32_t> experts, size_t per_token) {
    cache_->routed(bank, experts, per_token);
    if (options_.route_sink != nullptr) {
        options_.route_sink->routed(cache_->layout().layer_of_bank[bank], experts, per_token);
    }
}

uint64_t StreamedStore::token_working_set() const {
    const std::lock_guard lock(setup_mutex_);
    return residency::token_working_set(banks_, layers_);
}

Status StreamedStore::read_weight(const StreamedTensor &weight, size_t offset, std::span<std::byte> into) {
    if (weight.overwritten) {
        std::memcpy(into.data(), static_cast<const std::byte *>(weight.data) + offset, into.size());
        return {};
    }
    return platform::read_fully(*weight.file, weight.offset + offset, into, into.size(),
                                platform::Access::Buffered, nullptr);
}

Status StreamedStore::overwrite(StreamedTensor &weight, size_t offset, std::span<const std::byte> bytes) {
    const std::lock_guard lock(compute_mutex);
    auto written = write_to(weight, offset, bytes);
    if (!written) {
        refusal_ = written.error().with_context("somebody wrote to a weight, and it was not possible");
    }
    return written;
}

Status StreamedStore::write_to(StreamedTensor &weight, size_t offset, std::span<const std::byte> bytes) {
    if (auto ready = materialize(weight, "something writes to it"); !ready) {
        return ready;
    }
    if (weight.mapped) {
        return fail(ErrorCode::Unsupported,
                    fmt::format("{} is mapped from its file and cannot be written to", weight.name));
    }
    std::memcpy(static_cast<std::byte *>(weight.tensor->data) + offset, bytes.data(), bytes.size());
    weight.overwritten = true;
    return {};
}

Status StreamedStore::materialize(StreamedTensor &weight, const std::string &why) {
    if (weight.materialized) {
        return {};
    }
    if (weight.role == Role::Rows) {
        if (auto brought = materialize_rows(weight, why); !brought) {
            return brought;
        }
    } else {
        const size_t bytes = ggml_nbytes(weight.tensor);
        notice(fmt::format("{} ({:.1f} MiB) is brought into memory whole because {}", weight.name,
                           mebibytes(bytes), why));
        auto *data = static_cast<std::byte *>(weight.tensor->data);
        if (auto opened = platform::ReservedMemory::open_pages({data, bytes}); !opened) {
            return opened;
        }
        if (auto read = read_weight(weight, 0, {data, bytes}); !read) {
            return fail(read.error().with_context("cannot bring in " + weight.name));
        }
    }
    weight.materialized = true;
    ++counters.materialized;
    return {};
}

Status StreamedStore::materialize_rows(StreamedTensor &weight, const std::string &why) {
    const auto left = options_.memory_left ? options_.memory_left() : std::nullopt;
    const auto how = rows_->materialize(weight.index, left);
    if (!how) {
        return fail(how.error());
    }
    weight.mapped = *how == residency::Materialized::Mapped;
    const std::string small =
        weight.mapped
            ? fmt::format("mapped from its file ({:.1f} MiB of memory are left)", mebibytes(left.value_or(0)))
            : "brought into memory whole";
    notice(fmt::format("{} ({:.1f} MiB) is {} because {}", weight.name, mebibytes(ggml_nbytes(weight.tensor)),
                       small, why));
    const std::lock_guard lock(setup_mutex_);
    row_states_[weight.name].materialized = true;
    return {};
}

std::vector<platform::ByteRange> StreamedStore::mapped_ranges() const {
    std::vector<platform::ByteRange> ranges;
    for (const StreamedTensor *weight : dense_) {
        if (options_.placement.map_dense) {
            ranges.emplace_back(static_cast<const std::byte *>(weight->data), ggml_nbytes(weight->tensor));
        }
    }
    return ranges;
}

std::vector<platform::ByteRange> StreamedStore::dense_ranges() const {
    std::vector<platform::ByteRange> ranges;
    for (const StreamedTensor *weight : dense_) {
        ranges.emplace_back(static_cast<const std::byte *>(weight->data), ggml_nbytes(weight->tensor));
    }
    const std::lock_guard lock(setup_mutex_);
    for (ggml_backend_buffer_t buffer : weight_buffers_) {
        ranges.emplace_back(static_cast<const std::byte *>(ggml_backend_buffer_get_base(buffer)),
                            ggml_backend_buffer_get_size(buffer));
    }
    return ranges;
}

RowTableState StreamedStore::row_table_state(const std::string &table) const {
    const std::lock_guard lock(setup_mutex_);
    const auto found = row_states_.find(table);
    return found == row_states_.end() ? RowTableState{} : found->second;
}

uint64_t StreamedStore::row_table_bytes() const {
    uint64_t bytes = 0;
    for (const TableCandidate &table : placement.tables()) {
        const bool streamed = table.tie == Tie::None && table.refusal.empty();
        bytes += streamed && !row_table_state(table.name).materialized ? table.bytes : 0;
    }
    return bytes;
}

uint64_t StreamedStore::streamed_bytes() const {
    uint64_t bytes = 0;
    for (const residency::Bank &bank : banks_) {
        bytes += uint64_t{bank.expert_count} * bank.slice_bytes;
    }
    return bytes;
}

void StreamedStore::set_lossy(float drop_cold, float substitute) {
    lossy_.drop_cold = drop_cold;
    lossy_.substitute = substitute;
    ++lossy_version_;
}

void StreamedStore::say_once(const std::string &what) {
    const std::lock_guard lock(setup_mutex_);
    if (said_.insert(what).second) {
        notice(what);
    }
}

void StreamedStore::set_error(Error error) {
    std::lock_guard lock(error_mutex_);
    if (!error_) {
        error_ = std::move(error);
        failed_.store(true, std::memory_order_release);
    }
}

void StreamedStore::note_last_error(const Error &error) {
    const std::lock_guard lock(error_mutex_);
    last_error_ = error;
}

std::optional<Error> StreamedStore::last_error() const {
    const std::lock_guard lock(error_mutex_);
    return last_error_;
}

std::optional<Error> StreamedStore::take_error() {
    std::lock_guard lock(error_mutex_);
    failed_.store(false, std::memory_order_release);
    return std::exchange(error_, std::nullopt);
}

} // namespace sluice::streaming
