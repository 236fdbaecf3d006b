#include "streamed_models.h"

#include "platform/page_residency.h"

#include <algorithm>
#include <utility>

namespace sluice::flash {

namespace {

// Enough for a share that is right to a percent or two, few enough to cost milliseconds.
constexpr size_t kResidencySamples = 4096;

class StreamedFlashModel final : public IFlashModel {
public:
    StreamedFlashModel(std::shared_ptr<streaming::StreamedModel> model, uint64_t id)
        : model_(std::move(model)), id_(id) {}

    uint64_t id() const override { return id_; }
    ModelFacts facts() const override;
    Counts counts() const override;
    bool is_computing() const override {
        const streaming::StoreCounters &counters = model_->store->counters;
        const uint64_t ended = counters.graphs_ended; // first: a graph that ends now is still computed
        return counters.graphs != ended;
    }
    uint64_t cache_held_bytes() const override { return cache() != nullptr ? cache()->held_bytes() : 0; }
    std::vector<LayerUse> layers() const override;
    DenseResidency dense_residency() const override;

    Status limit_cache(std::optional<uint64_t> bytes) override { return model_->runtime->limit_cache(bytes); }
    Status set_lookahead(std::optional<uint32_t> experts) override {
        return model_->runtime->set_lookahead(experts);
    }
    void set_lossy(float drop_cold, float substitute) override {
        model_->runtime->set_lossy(drop_cold, substitute);
    }
    uint64_t trim() override { return model_->runtime->trim(); }

private:
    [[nodiscard]] residency::ExpertCache *cache() const { return model_->store->cache(); }

    const std::shared_ptr<streaming::StreamedModel> model_;
    const uint64_t id_;
};

ModelFacts StreamedFlashModel::facts() const {
    const streaming::StreamedStore &store = *model_->store;
    ModelFacts facts;
    facts.options = model_->options;
    facts.options.lookahead = model_->runtime->lookahead();
    facts.options.lossy = model_->runtime->lossy();
    facts.file_bytes = model_->directory->file_bytes();
    facts.streamed_bytes = store.streamed_bytes();
    for (const platform::ByteRange range : model_->runtime->dense_ranges()) {
        facts.dense_bytes += range.size();
    }
    facts.mapped_bytes = store.mapped_bytes();
    facts.can_look_ahead = store.looks_ahead();
    facts.last_error = model_->store->last_error();
    if (cache() != nullptr) {
        const residency::SlotPlan &plan = cache()->plan();
        facts.cache = {.limit = cache()->limit(),
                       .capacity = plan.arena_bytes,
                       .held = cache()->held_bytes(),
                       .minimum = plan.minimum_bytes};
    }
    facts.experts = streaming::expert_stats(*model_);
    facts.rows = streaming::row_stats(*model_);
    facts.tables = streaming::row_tables(*model_);
    facts.settled = model_->runtime->settled();
    facts.tokens_tried = model_->runtime->tokens_tried();
    return facts;
}

Counts StreamedFlashModel::counts() const {
    const streaming::StoreCounters &counters = model_->store->counters;
    Counts counts;
    counts.tokens = counters.tokens;
    counts.prompt_tokens = counters.prompt_tokens;
    counts.graphs = counters.graphs;
    counts.compute_nanoseconds = counters.compute_nanoseconds;
    counts.expert_wait_nanoseconds = counters.stall_nanoseconds;
    counts.row_wait_nanoseconds = counters.row_stall_nanoseconds;
    counts.cache_nanoseconds = counters.cache_nanoseconds;
    counts.between_nanoseconds = counters.between_nanoseconds;
    if (cache() != nullptr) {
        const residency::ExpertCounters experts = cache()->counters();
        counts.hits = experts.hits;
        counts.misses = experts.misses;
        counts.evictions = experts.evictions;
        counts.expert_read_bytes = experts.bytes_read;
    }
    storage::ReadCounters reads = model_->reads->counters();
    if (model_->row_reads != nullptr) {
        counts.row_read_bytes = model_->store->rows()->counters().bytes_read;
        reads += model_->row_reads->counters();
    }
    counts.device_bytes = reads.device_bytes;
    counts.device_busy_nanoseconds = reads.busy_nanoseconds;
    return counts;
}

std::vector<LayerUse> StreamedFlashModel::layers() const {
    std::vector<LayerUse> layers;
    if (cache() == nullptr) {
        return layers;
    }
    const auto use = cache()->use();
    for (const residency::LayerNeed &need : model_->store->layers()) {
        LayerUse layer{.asked = use[need.banks.front()].asked, .there = use[need.banks.front()].there};
        for (const residency::BankId bank : need.banks) {
            const std::vector<bool> &there = use[bank].there;
            for (size_t expert = 0; expert < std::min(there.size(), layer.there.size()); ++expert) {
                layer.there[expert] = layer.there[expert] && there[expert];
            }
        }
        layers.push_back(std::move(layer));
    }
    return layers;
}

DenseResidency StreamedFlashModel::dense_residency() const {
    const auto pages = platform::sample_residency(model_->runtime->dense_ranges(), kResidencySamples);
    return {.resident = pages.resident, .swapped = pages.swapped};
}

} // namespace

uint64_t StreamedModels::id_of(const std::shared_ptr<streaming::StreamedModel> &model) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const Known &known) { return known.model.expired(); });
    for (const Known &known : known_) {
        if (known.model.lock() == model) {
            return known.id;
        }
    }
    known_.push_back({model, next_id_});
    return next_id_++;
}

std::vector<std::shared_ptr<IFlashModel>> StreamedModels::models() {
    std::vector<std::shared_ptr<IFlashModel>> all;
    for (const auto &model : find_()) {
        all.push_back(std::make_shared<StreamedFlashModel>(model, id_of(model)));
    }
    return all;
}

} // namespace sluice::flash
