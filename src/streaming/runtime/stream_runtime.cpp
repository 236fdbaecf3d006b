#include "streaming/runtime/stream_runtime.h"

#include "base/notice.h"
#include "platform/memory_facts.h"
#include "platform/reserved_memory.h"
#include "residency/memory_limits.h"

#include "ggml-backend.h"
#include "ggml-impl.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace sluice::streaming {

namespace {

/// Bytes of the buffers that `graph` computes in: allocated with its context, and not touched by anyone
/// before the first graph.
uint64_t compute_buffer_bytes(const ggml_cgraph *graph) {
    std::set<ggml_backend_buffer_t> buffers;
    for (int i = 0; i < graph->n_nodes; ++i) {
        ggml_backend_buffer_t buffer = view_root(graph->nodes[i])->buffer;
        if (buffer != nullptr && ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
            buffers.insert(buffer);
        }
    }
    uint64_t bytes = 0;
    for (ggml_backend_buffer_t buffer : buffers) {
        bytes += ggml_backend_buffer_get_size(buffer);
    }
    return bytes;
}

} // namespace

StreamRuntime::StreamRuntime(StreamedStore &store, storage::SwitchedReadEngine &reads, RuntimeOptions options)
    : store_(store), options_(std::move(options)), reads_(reads), given_(options_.tuning),
      lossy_(store.lossy()) {
    if (!options_.hot_set_folder.empty()) {
        hot_set_.emplace(options_.hot_set_folder, options_.file);
    }
    tuning_.emplace(&store_, &reads_, given_, 0);
    store_.runtime = this;
}

StreamRuntime::~StreamRuntime() {
    store_.runtime = nullptr;
    if (!hot_set_ || store_.cache() == nullptr) {
        return;
    }
    try {
        if (auto kept = hot_set_->keep(*store_.cache(), store_.banks()); !kept) {
            notice("what was hot is not kept for the next run: " + kept.error().message);
        }
    } catch (const std::exception &error) {
        notice(error.what());
    }
}

Status StreamRuntime::make_cache(uint64_t untouched_bytes) {
    const std::lock_guard lock(store_.compute_mutex);
    return store_.cache() != nullptr ? Status{} : make_cache_locked(untouched_bytes);
}

Status StreamRuntime::make_cache_locked(uint64_t untouched_bytes) {
    pressure_.emplace(); // before the cache takes any
    auto made = store_.ensure_cache([&](const residency::SlotPlan &plan, uint64_t working_set) {
        if (options_.cache_bytes) {
            return *options_.cache_bytes;
        }
        const platform::MemoryFacts memory = platform::read_memory_facts();
        return residency::auto_cache_bytes({.usable_memory = platform::usable_memory(memory),
                                            .group_limit = residency::bounding_group_limit(memory),
                                            .compute_bytes = untouched_bytes,
                                            .mapped_bytes = store_.mapped_bytes(),
                                            .minimum_bytes = plan.minimum_bytes,
                                            .useful_bytes = plan.useful_bytes,
                                            .working_set_bytes = working_set});
    });
    if (made && store_.cache() != nullptr && store_.cache()->limit() > most_cache_bytes_) {
        store_.cache()->set_limit(most_cache_bytes_);
    }
    if (made && hot_set_ && store_.cache() != nullptr) {
        hot_set_->warm(*store_.cache(), store_.banks());
    }
    return made;
}

/// A pause of more than a second is nobody's waiting for a token.
void StreamRuntime::time_since_last_graph() {
    constexpr std::chrono::seconds kPause{1};
    if (ended_ && Clock::now() - *ended_ <= kPause) {
        store_.counters.between_nanoseconds += nanoseconds_since(*ended_);
    }
    ended_.reset();
}

void StreamRuntime::apply_lossy() {
    const std::lock_guard lock(mutex_);
    if (lossy_changed_) {
        store_.set_lossy(lossy_.drop_cold, lossy_.substitute);
        lossy_changed_ = false;
    }
}

/// Only while a graph begins is the model surely there.
void StreamRuntime::note_dense_ranges() {
    constexpr std::chrono::seconds kPause{10};
    const auto now = Clock::now();
    if (ranges_noted_ != Clock::time_point() && now - ranges_noted_ < kPause) {
        return;
    }
    ranges_noted_ = now;
    auto ranges = store_.dense_ranges();
    const std::lock_guard lock(mutex_);
    dense_ranges_ = std::move(ranges);
}

Status StreamRuntime::before_graph(const ggml_cgraph *graph) {
    time_since_last_graph();
    apply_lossy();
    note_dense_ranges();
    if (!store_.has_banks()) {
        return {};
    }
    if (store_.cache() == nullptr) {
        auto made = make_cache_locked(compute_buffer_bytes(graph));
        if (made && on_first_graph_) {
            on_first_graph_(graph);
        }
        return made;
    }
    pressure_->adjust(*store_.cache(), most_cache_bytes_);
    if (hot_set_) {
        hot_set_->keep_now_and_then(*store_.cache(), store_.banks());
    }
    return {};
}

int StreamRuntime::begin(int64_t tokens, int most_threads) {
    const std::lock_guard lock(mutex_);
    if (most_threads > most_threads_) { // there is more to choose from: what was found is no longer enough
        most_threads_ = most_threads;
        tuning_.emplace(&store_, &reads_, given_, most_threads);
        if (restless_) {
            tuning_->make_restless();
        }
    }
    const int threads = tuning_->prepare(tokens == 1);
    // Where the context keeps its own number, times say nothing about others.
    is_judged_ = tokens == 1 && (most_threads_ == 0 || most_threads == most_threads_);
    if (is_judged_) {
        read_before_ = slices_read();
        begun_ = Clock::now();
    }
    return most_threads == 0 ? 0 : std::min(threads, most_threads);
}

void StreamRuntime::after_graph(bool succeeded) {
    ended_ = Clock::now();
    if (!is_judged_ || !succeeded) {
        return;
    }
    const double seconds = static_cast<double>(nanoseconds_since(begun_)) * 1e-9;
    const bool read = slices_read() > read_before_;
    const std::lock_guard lock(mutex_);
    tuning_->learn(seconds, read);
}

uint64_t StreamRuntime::slices_read() const {
    if (store_.cache() == nullptr) {
        return 0;
    }
    const residency::ExpertCounters counters = store_.cache()->counters();
    return counters.misses + counters.prefetched;
}

std::vector<platform::ByteRange> StreamRuntime::dense_ranges() const {
    const std::lock_guard lock(mutex_);
    return dense_ranges_;
}

Status StreamRuntime::limit_cache(std::optional<uint64_t> bytes) {
    residency::ExpertCache *cache = store_.cache();
    if (cache == nullptr) {
        most_cache_bytes_ = bytes.value_or(UINT64_MAX);
        return {};
    }
    if (bytes && *bytes < cache->plan().minimum_bytes) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("an expert cache of {} MiB is too small: one token needs {} MiB",
                                *bytes >> 20U, (cache->plan().minimum_bytes >> 20U) + 1));
    }
    const uint64_t before = most_cache_bytes_.exchange(bytes.value_or(UINT64_MAX));
    const uint64_t most = std::min<uint64_t>(most_cache_bytes_, cache->plan().arena_bytes);
    if (most != before) {
        cache->set_limit(most);
    }
    return {};
}

uint64_t StreamRuntime::trim() {
    residency::ExpertCache *cache = store_.cache();
    if (cache == nullptr) {
        return 0;
    }
    const uint64_t before = cache->held_bytes();
    const size_t limit = cache->limit();
    cache->set_limit(0);
    const uint64_t after = cache->held_bytes();
    cache->set_limit(limit);
    platform::trim_heap();
    return before - std::min(before, after);
}

Status StreamRuntime::set_lookahead(std::optional<uint32_t> experts) {
    if (!store_.looks_ahead() && experts != 0U) {
        return fail(ErrorCode::Unsupported,
                    "the model was loaded with --lookahead off, which takes a restart to change");
    }
    const std::lock_guard lock(mutex_);
    given_.lookahead = experts;
    tuning_.emplace(&store_, &reads_, given_, most_threads_);
    if (restless_) {
        tuning_->make_restless();
    }
    return {};
}

std::optional<uint32_t> StreamRuntime::lookahead() const {
    const std::lock_guard lock(mutex_);
    return given_.lookahead;
}

void StreamRuntime::set_lossy(float drop_cold, float substitute) {
    const std::lock_guard lock(mutex_);
    lossy_.drop_cold = drop_cold;
    lossy_.substitute = substitute;
    lossy_changed_ = true;
}

LossyOptions StreamRuntime::lossy() const {
    const std::lock_guard lock(mutex_);
    return lossy_;
}

void StreamRuntime::on_first_graph(std::function<void(const ggml_cgraph *)> listener) {
    on_first_graph_ = std::move(listener);
}

void StreamRuntime::make_restless() {
    const std::lock_guard lock(mutex_);
    restless_ = true;
    tuning_->make_restless();
}

std::vector<SettledSetting> StreamRuntime::settled() const {
    const std::lock_guard lock(mutex_);
    return tuning_->outcome();
}

uint64_t StreamRuntime::tokens_tried() const {
    const std::lock_guard lock(mutex_);
    return tuning_->tokens_tried();
}

bool StreamRuntime::looks_ahead() const {
    const std::lock_guard lock(mutex_);
    return tuning_->looks_ahead();
}

} // namespace sluice::streaming
