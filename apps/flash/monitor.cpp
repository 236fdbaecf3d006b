#include "monitor.h"

#include "platform/memory_facts.h"

#include <algorithm>
#include <utility>

namespace sluice::flash {

namespace {

// Looking at pages takes milliseconds, and they move slowly.
constexpr std::chrono::seconds kDensePause{10};

int64_t unix_milliseconds() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

} // namespace

Monitor::Monitor(IFlashModels &models, bool starts) : models_(models), starts_(starts) {
    if (starts) {
        thread_ = std::thread([this] { run(); });
    }
}

Monitor::~Monitor() {
    close();
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Monitor::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return ending_ || Clock::now() < watched_; });
        if (ending_) {
            return;
        }
        lock.unlock();
        take_sample();
        lock.lock();
        changed_.wait_for(lock, kPace, [this] { return ending_; });
    }
}

void Monitor::take_sample() {
    const auto present = models_.models();
    const std::optional<uint64_t> resident = platform::read_process_memory().resident;
    {
        const std::lock_guard lock(mutex_);
        std::map<uint64_t, Record> records;
        for (const auto &model : present) {
            const auto known = records_.find(model->id());
            Record &record = records[model->id()];
            if (known != records_.end()) {
                record = std::move(known->second);
            }
            sample(*model, record, resident);
        }
        records_ = std::move(records); // models that are gone go with their records
        newest_ = Clock::now();
        ++samples_;
    }
    changed_.notify_all();
}

void Monitor::look() {
    if (!starts_) {
        return;
    }
    std::unique_lock lock(mutex_);
    if (samples_ == 0 || Clock::now() - newest_ > kPace) {
        lock.unlock();
        take_sample();
    }
}

void Monitor::sample(const IFlashModel &model, Record &record, std::optional<uint64_t> resident) const {
    const auto now = Clock::now();
    const Counts totals = model.counts();
    const bool unwatched = starts_ && now - newest_ > kForgotten;
    const bool is_new = record.taken == Clock::time_point();
    const bool is_first = is_new || unwatched;
    if (is_first || now - record.dense_looked >= kDensePause) {
        record.dense = model.dense_residency();
        record.dense_looked = now;
    }
    // What a newcomer did before is no second's work, nor is what was done while nobody looked.
    const Counts more = is_first ? Counts() : totals - record.totals;
    const double seconds = is_first ? 0 : std::chrono::duration<double>(now - record.taken).count();
    if (!is_first && more.tokens + more.prompt_tokens == 0 && model.is_computing()) {
        return; // counts come with the graph's end: a sample now would show idleness, the next one too much
    }
    if (record.newest.counts.graphs > 0) {
        record.history.push_back(record.newest);
    }
    if (record.history.size() > kKept) {
        record.history.pop_front();
    }
    record.newest = {.time_ms = unix_milliseconds(),
                     .interval_ms = seconds * 1e3,
                     .counts = more,
                     .resident_bytes = resident,
                     .cache_held_bytes = model.cache_held_bytes()};
    if (is_first || more.graphs > 0) {
        record.heat.add(model.layers(),
                        is_new ? 0 : std::chrono::duration<double>(now - record.taken).count());
    }
    record.totals = totals;
    record.taken = now;
}

std::vector<Watched> Monitor::models() const {
    const auto present = models_.models();
    const std::lock_guard lock(mutex_);
    std::vector<Watched> all;
    for (const auto &model : present) {
        const auto found = records_.find(model->id());
        if (found != records_.end()) {
            const Record &record = found->second;
            all.push_back({.model = model,
                           .newest = record.newest,
                           .history = {record.history.begin(), record.history.end()},
                           .heat = record.heat.layers(),
                           .dense = record.dense});
        }
    }
    return all;
}

std::optional<uint64_t> Monitor::wait_for_sample(uint64_t seen) {
    std::unique_lock lock(mutex_);
    const bool sleeps = Clock::now() >= watched_;
    watched_ = Clock::now() + kWatched;
    if (sleeps) {
        changed_.notify_all();
    }
    changed_.wait_for(lock, 2 * kPace, [this, seen] { return closed_ || samples_ > seen; });
    return closed_ ? std::nullopt : std::optional(samples_);
}

void Monitor::close() {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
}

} // namespace sluice::flash
