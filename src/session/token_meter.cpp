#include "session/token_meter.h"

namespace sluice::session {

namespace {

double seconds(uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
}

/// Sets `delta` to what came since `before`, if both were measured, and moves `before` on.
template <typename T>
std::optional<T> advance(std::optional<T> &before, const std::optional<T> &now) {
    const std::optional<T> delta = before && now ? std::optional<T>(*now - *before) : std::nullopt;
    before = now;
    return delta;
}

/// As above, for what is always there.
uint64_t advance(uint64_t &before, uint64_t now) {
    const uint64_t delta = now - before;
    before = now;
    return delta;
}

/// Of all backends of a context together; hardly ever more than one.
streaming::GraphTotals sum(std::span<const ggml_backend_t> backends) {
    streaming::GraphTotals all;
    for (ggml_backend_t backend : backends) {
        const streaming::GraphTotals &one = streaming::backend_totals(backend);
        all.compute_nanoseconds += one.compute_nanoseconds;
        all.expert_wait_nanoseconds += one.expert_wait_nanoseconds;
        all.row_wait_nanoseconds += one.row_wait_nanoseconds;
        all.cache_nanoseconds += one.cache_nanoseconds;
        all.experts.hits += one.experts.hits;
        all.experts.misses += one.experts.misses;
        all.experts.evictions += one.experts.evictions;
        all.experts.bytes_read += one.experts.bytes_read;
        all.experts.prefetched += one.experts.prefetched;
        all.experts.prefetched_bytes += one.experts.prefetched_bytes;
        all.rows.reads += one.rows.reads;
        all.rows.bytes_read += one.rows.bytes_read;
    }
    return all;
}

} // namespace

void TokenMeter::watch_process(bool watch) {
    process_ = watch ? std::make_unique<platform::ProcessMeter>() : nullptr;
}

void TokenMeter::begin_call(const ModelState &model) {
    device_ = read_device(model);
    if (process_ != nullptr) {
        usage_ = process_->read();
    }
    last_end_ = Clock::now();
}

TokenSample TokenMeter::end_decode(const ModelState &model, std::span<const ggml_backend_t> backends) {
    const auto end = Clock::now();
    TokenSample sample;
    sample.time.wall = std::chrono::duration<double>(end - last_end_).count();
    sample.time.between = std::chrono::duration<double>(decode_start_ - last_end_).count();
    if (backends.empty()) {
        sample.time.compute = std::chrono::duration<double>(end - decode_start_).count();
    } else {
        add_graphs(backends, sample);
    }
    last_end_ = end;
    add_device(model, sample);
    add_process(sample);
    return sample;
}

TimeParts TokenMeter::since_last() const {
    const double passed = std::chrono::duration<double>(Clock::now() - last_end_).count();
    return {.wall = passed, .between = passed};
}

void TokenMeter::add_graphs(std::span<const ggml_backend_t> backends, TokenSample &sample) {
    const streaming::GraphTotals now = sum(backends);
    sample.time.compute = seconds(advance(graphs_.compute_nanoseconds, now.compute_nanoseconds));
    sample.time.expert_wait = seconds(advance(graphs_.expert_wait_nanoseconds, now.expert_wait_nanoseconds));
    sample.time.row_wait = seconds(advance(graphs_.row_wait_nanoseconds, now.row_wait_nanoseconds));
    sample.time.cache = seconds(advance(graphs_.cache_nanoseconds, now.cache_nanoseconds));
    sample.hits = advance(graphs_.experts.hits, now.experts.hits);
    sample.misses = advance(graphs_.experts.misses, now.experts.misses);
    sample.evictions = advance(graphs_.experts.evictions, now.experts.evictions);
    sample.expert_reads = sample.misses;
    sample.speculative_reads = advance(graphs_.experts.prefetched, now.experts.prefetched);
    sample.speculative_read_bytes = advance(graphs_.experts.prefetched_bytes, now.experts.prefetched_bytes);
    sample.expert_read_bytes =
        advance(graphs_.experts.bytes_read, now.experts.bytes_read) - sample.speculative_read_bytes;
    sample.row_reads = advance(graphs_.rows.reads, now.rows.reads);
    sample.row_read_bytes = advance(graphs_.rows.bytes_read, now.rows.bytes_read);
}

TokenMeter::Device TokenMeter::read_device(const ModelState &model) {
    Device device;
    if (model.streamed == nullptr) {
        return device;
    }
    for (const storage::IReadEngine *engine : std::initializer_list<const storage::IReadEngine *>{
             model.streamed->reads.get(), model.streamed->row_reads.get()}) {
        if (engine != nullptr) {
            const storage::ReadCounters counters = engine->counters();
            device.busy_nanoseconds += counters.busy_nanoseconds;
            device.bytes += counters.device_bytes;
        }
    }
    return device;
}

void TokenMeter::add_device(const ModelState &model, TokenSample &sample) {
    const Device now = read_device(model);
    sample.device_busy = seconds(advance(device_.busy_nanoseconds, now.busy_nanoseconds));
    sample.device_bytes = advance(device_.bytes, now.bytes);
}

void TokenMeter::add_process(TokenSample &sample) {
    if (process_ == nullptr) {
        return;
    }
    const platform::ProcessUsage now = process_->read();
    sample.major_faults = advance(usage_.major_faults, now.major_faults);
    sample.minor_faults = advance(usage_.minor_faults, now.minor_faults);
    sample.swap_ins = advance(usage_.swap_ins, now.swap_ins);
    sample.cpu_seconds = advance(usage_.cpu_seconds, now.cpu_seconds);
    sample.resident_bytes = now.resident;
}

} // namespace sluice::session
