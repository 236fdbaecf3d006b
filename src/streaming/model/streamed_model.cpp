#include "streaming/model/streamed_model.h"

#include "platform/memory_facts.h"
#include "residency/memory_limits.h"

#include <algorithm>
#include <utility>

namespace sluice::streaming {

namespace {

storage::ReadEngineKind engine_kind(IoEngine engine) {
    switch (engine) {
    case IoEngine::Uring:
        return storage::ReadEngineKind::Uring;
    case IoEngine::Threads:
        return storage::ReadEngineKind::Threads;
    case IoEngine::Auto:
        break;
    }
    return storage::ReadEngineKind::Auto;
}

storage::ReadEngineWish expert_engine(const ModelOptions &options) {
    const auto given_or = [](int given, int start) { return given == 0 ? start : given; };
    return {.kind = engine_kind(options.io_engine),
            .depth = given_or(options.io_depth, streaming::kRingDepth),
            .lanes = given_or(options.io_threads, streaming::kReaderThreads)};
}

/// A slab is small: only many reads in flight keep a device busy.
storage::ReadEngineWish row_engine(const ModelOptions &options) {
    constexpr int kReadsInFlight = 64;
    constexpr int kLanes = 32;
    return {.kind = engine_kind(options.io_engine), .depth = kReadsInFlight, .lanes = kLanes};
}

/// What may still be taken, a floor left to the system.
std::optional<uint64_t> memory_left() {
    const platform::MemoryFacts facts = platform::read_memory_facts();
    const auto usable = platform::usable_memory(facts);
    if (!usable) {
        return std::nullopt;
    }
    return *usable -
           std::min(*usable, residency::system_floor(*usable, residency::bounding_group_limit(facts)));
}

std::string why_not_direct(const gguf::GgufDirectory &directory) {
    for (const auto &shard : directory.shards()) {
        if (!shard->direct_trusted()) {
            return shard->direct_refusal();
        }
    }
    return {};
}

streaming::RuntimeOptions runtime_options(const ModelOptions &given, const gguf::GgufDirectory &directory) {
    streaming::RuntimeOptions runtime{.cache_bytes = given.cache_bytes,
                                      .tuning = {.io_engine = given.io_engine,
                                                 .io_depth = given.io_depth,
                                                 .io_threads = given.io_threads,
                                                 .lookahead = given.lookahead},
                                      .hot_set_folder = given.hot_set_folder};
    if (!given.hot_set_folder.empty()) {
        runtime.file = residency::identify_file(given.path, directory.file_bytes());
    }
    return runtime;
}

} // namespace

bool all_direct(const gguf::GgufDirectory &directory) {
    return std::all_of(directory.shards().begin(), directory.shards().end(),
                       [](const auto &shard) { return shard->direct_trusted(); });
}

platform::Access expert_access(const ModelOptions &options, const gguf::GgufDirectory &directory) {
    return options.direct && all_direct(directory) ? platform::Access::Direct : platform::Access::Buffered;
}

streaming::StoreOptions store_options(const ModelOptions &options, platform::Access access) {
    return {.access = access,
            .placement = {.rows = options.row_stream,
                          .map_dense = options.dense_weights == DenseWeights::Mmap ||
                                       options.dense_weights == DenseWeights::Warm,
                          .repack = options.repack},
            .policy = options.cache_policy,
            .route_sink = options.route_sink,
            .lossy = options.lossy,
            .repack_experts = options.repack_experts,
            .overlap = options.overlap,
            .lookahead = options.lookahead != 0U,
            .row_window_bytes = options.row_window_bytes,
            .memory_left = [] { return memory_left(); }};
}

Result<std::shared_ptr<StreamedModel>>
StreamedModel::make(const ModelOptions &options, std::shared_ptr<const gguf::GgufDirectory> directory) {
    auto made = std::make_shared<StreamedModel>();
    made->options = options;
    made->directory = std::move(directory);
    auto reads = storage::SwitchedReadEngine::create(expert_engine(options), made->io_note);
    if (!reads) {
        return fail(reads.error());
    }
    made->reads = std::move(*reads);
    const platform::Access access = expert_access(options, *made->directory);
    made->direct = access == platform::Access::Direct;
    if (options.direct && !made->direct) {
        made->direct_refusal = why_not_direct(*made->directory);
    }
    streaming::StoreOptions wanted = store_options(options, access);
    wanted.expert_reads = made->reads.get();
    if (options.row_stream) {
        auto row_reads = storage::make_read_engine(row_engine(options));
        if (!row_reads) {
            return fail(row_reads.error());
        }
        made->row_reads = std::move(row_reads->engine);
        wanted.row_reads = made->row_reads.get();
    }
    auto store = streaming::StreamedStore::create(*made->directory, std::move(wanted));
    if (!store) {
        return fail(store.error());
    }
    made->store = std::move(*store);
    made->runtime = std::make_unique<streaming::StreamRuntime>(*made->store, *made->reads,
                                                               runtime_options(options, *made->directory));
    return made;
}

} // namespace sluice::streaming
