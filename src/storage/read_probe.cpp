#include "storage/read_probe.h"

#include "storage/memory_facts.h"
#include "storage/posix_calls.h"
#include "storage/reserved_memory.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace sluice::storage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Memory for the reads in flight is bounded by this.
constexpr uint64_t most_memory = uint64_t{256} << 20;
/// Accounting is by whole blocks and pages, and a page may stay in the cache; much less than all is a lie.
constexpr double believable_share = 0.9;
/// Widths within this share of the best are as good.
constexpr double good_enough = 0.95;

double mib(double bytes) {
    return bytes / (1 << 20);
}

double seconds(Clock::duration span) {
    return std::chrono::duration<double>(span).count();
}

} // namespace

/// Where the reads of one size lie in the file, and in memory.
struct ReadProbe::Geometry {
    uint64_t read_bytes = 0;
    uint64_t stride = 0; ///< read_bytes up to whole blocks
    std::span<std::byte> memory = {};
    ReadOrder *order = nullptr;
};

/// Reads under way with a fixed number of them in flight: each one that arrives starts the next.
class ReadProbe::Flight {
public:
    Flight(IFile &file, Access access, const Geometry &geometry, IReadEngine &engine, int width)
        : file_(file), access_(access), geometry_(geometry), engine_(engine),
          width_(static_cast<size_t>(width)) {}

    /// Reads for `duration`, and on until enough reads say something, but to `latest` at most. Returns when
    /// all reads have ended.
    void run(milliseconds duration, Clock::time_point latest, const std::function<bool()> &keep_going);

    /// In steady state, from when all places were taken for the first time to when no more reads were
    /// started.
    [[nodiscard]] double mib_per_second() const;

    [[nodiscard]] uint64_t bytes() const { return static_cast<uint64_t>(done_) * geometry_.read_bytes; }
    [[nodiscard]] const std::string &error() const { return error_; }

private:
    ReadRequest request(size_t place);
    void arrived(size_t place, const Status &status);
    /// Whether another read is to be started. Called with mutex_ held.
    bool wants_more(Clock::time_point now);
    /// A place stays empty. Called with mutex_ held.
    void leave(Clock::time_point now);

    IFile &file_;
    Access access_;
    const Geometry &geometry_;
    IReadEngine &engine_;
    size_t width_;

    std::mutex mutex_; ///< guards what follows while reads are under way
    std::condition_variable ended_;
    size_t live_ = 0; ///< places in which a read is under way
    size_t started_ = 0;
    size_t done_ = 0;
    size_t steady_ = 0; ///< done_ when the last read was started
    bool stopping_ = false;
    std::string error_;
    Clock::time_point begin_, soonest_, latest_;
    Clock::time_point full_;  ///< when the first `width` reads had arrived
    Clock::time_point until_; ///< when `steady_` was taken
    Clock::time_point end_;
};

ReadRequest ReadProbe::Flight::request(size_t place) {
    const std::span<std::byte> memory = geometry_.memory.subspan(place * geometry_.stride, geometry_.stride);
    return {.file = &file_,
            .offset = geometry_.order->next() * geometry_.stride,
            .into = memory,
            .needed = static_cast<size_t>(geometry_.read_bytes),
            .access = access_,
            .done = [this, place](const Status &status) { arrived(place, status); }};
}

void ReadProbe::Flight::run(milliseconds duration, Clock::time_point latest,
                            const std::function<bool()> &keep_going) {
    constexpr int patience = 5;
    std::vector<ReadRequest> requests;
    for (size_t place = 0; place < width_; ++place) {
        requests.push_back(request(place));
    }
    live_ = started_ = width_;
    begin_ = Clock::now();
    soonest_ = begin_ + duration;
    latest_ = std::min(latest, begin_ + patience * duration);
    engine_.submit(requests);
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, milliseconds(20), [this] { return live_ == 0; })) {
        stopping_ = stopping_ || !keep_going();
    }
}

bool ReadProbe::Flight::wants_more(Clock::time_point now) {
    // Bytes that a buffered run has read are in the page cache, so it ends with the file.
    const bool used_up = access_ == Access::Buffered && started_ >= geometry_.order->count();
    const bool enough = done_ >= 3 * width_ && now >= soonest_;
    stopping_ = stopping_ || used_up || enough || now >= latest_;
    return !stopping_;
}

void ReadProbe::Flight::arrived(size_t place, const Status &status) {
    ReadRequest next;
    {
        const std::lock_guard lock(mutex_);
        const Clock::time_point now = Clock::now();
        ++done_;
        if (!status) {
            error_ = status.error().message;
            stopping_ = true;
        }
        if (done_ == width_) {
            full_ = now;
        }
        if (!wants_more(now)) {
            leave(now);
            return;
        }
        steady_ = done_;
        until_ = now;
        ++started_;
        next = request(place);
    }
    try {
        engine_.submit({&next, 1});
    } catch (const std::bad_alloc &) {
        const std::lock_guard lock(mutex_);
        error_ = "no memory to queue a read";
        stopping_ = true;
        leave(Clock::now());
    }
}

void ReadProbe::Flight::leave(Clock::time_point now) {
    end_ = now;
    if (--live_ == 0) {
        ended_.notify_all(); // under the lock: afterwards this object may be gone
    }
}

double ReadProbe::Flight::mib_per_second() const {
    const auto size = static_cast<double>(geometry_.read_bytes);
    if (steady_ >= 2 * width_ && until_ > full_) {
        return mib(static_cast<double>(steady_ - width_) * size) / seconds(until_ - full_);
    }
    return mib(static_cast<double>(done_) * size) / seconds(end_ - begin_);
}

namespace {

/// Why the bytes of a run are not believed to have come from storage; empty if they are.
std::string doubt(uint64_t read, const ProcessIo &before, const ProcessIo &after) {
    if (!before.storage_read || !after.storage_read) {
        return "this system does not tell how many bytes come from storage";
    }
    const uint64_t stored = *after.storage_read - *before.storage_read;
    const double share = static_cast<double>(stored) / static_cast<double>(read);
    if (share < believable_share) {
        const std::string some = share < 0.005 ? "none" : fmt::format("only {:.0f} %", 100 * share);
        return some + " of the bytes came from storage: the others were in memory, or are holes in the file";
    }
    return {};
}

} // namespace

ReadRate ReadProbe::measure_width(ReadEngineKind engine, const Geometry &geometry, int width,
                                  milliseconds duration) {
    ReadRate rate = {.width = width};
    if (static_cast<uint64_t>(width) * geometry.stride > geometry.memory.size()) {
        rate.unmeasured = fmt::format("so many reads at once need more than {} MiB", most_memory >> 20);
        return rate;
    }
    Result<std::unique_ptr<IReadEngine>> reads =
        engine == ReadEngineKind::Uring ? make_uring_read_engine(width) : make_thread_read_engine(width);
    if (!reads) {
        rate.unmeasured = reads.error().message;
        return rate;
    }
    if (options_.access == Access::Buffered) {
        drop_cached(file_);
    }
    const ProcessIo before = read_process_io();
    Flight flight(file_, options_.access, geometry, **reads, width);
    flight.run(duration, options_.deadline, [this] { return keeps_going(); });
    const uint64_t fallbacks = (*reads)->counters().fallbacks;
    reads->reset(); // no callback is on its way out of the flight any more
    rate.unmeasured = !flight.error().empty() ? flight.error()
                      : fallbacks > 0         ? "direct reads failed and were finished through the page cache"
                                              : doubt(flight.bytes(), before, read_process_io());
    if (rate.unmeasured.empty()) {
        rate.mib_per_second = flight.mib_per_second();
    }
    return rate;
}

ReadCurve ReadProbe::measure(ReadEngineKind engine, uint64_t read_bytes, std::span<const int> widths) {
    ReadCurve curve = {.engine = engine, .read_bytes = read_bytes};
    const uint64_t block = std::max<uint64_t>(file_.alignment(), page_size());
    const uint64_t stride = (read_bytes + block - 1) / block * block;
    const int widest = widths.empty() ? 0 : *std::max_element(widths.begin(), widths.end());
    const auto fitting = std::min<uint64_t>(static_cast<uint64_t>(widest), most_memory / stride);
    std::string trouble;
    if (file_.size() < stride) {
        trouble = fmt::format("the file is smaller than one read of {} bytes", stride);
    }
    Result<ReservedMemory> memory = ReservedMemory::reserve(fitting * stride, MemoryUse::Arena);
    if (!memory) {
        trouble = memory.error().message;
    }
    if (!trouble.empty()) {
        for (const int width : widths) {
            curve.rates.push_back({.width = width, .mib_per_second = {}, .unmeasured = trouble});
        }
        return curve;
    }
    std::ranges::fill(memory->bytes(), std::byte{1}); // page faults are not the device's
    ReadOrder &order =
        orders_.try_emplace(read_bytes, file_.size() / stride, std::random_device{}()).first->second;
    const Geometry geometry = {
        .read_bytes = read_bytes, .stride = stride, .memory = memory->bytes(), .order = &order};
    milliseconds expected{0};
    for (const int width : widths) {
        if (!warm_ && keeps_going()) {
            warm_ = true; // the first reads find a device and a processor that save power
            measure_width(engine, geometry, std::min(4, width), options_.per_width / 3);
        }
        ReadRate &rate = curve.rates.emplace_back(ReadRate{.width = width});
        if (!keeps_going()) {
            rate.unmeasured = "interrupted";
        } else if (Clock::now() + expected >= options_.deadline) {
            rate.unmeasured = "no time was left";
        } else {
            rate = measure_width(engine, geometry, width, options_.per_width);
        }
        if (rate.mib_per_second) {
            // On a slow device the first reads of the next width alone may take longer than all is to take.
            const double bytes = 2.0 * width * static_cast<double>(stride);
            expected = std::chrono::duration_cast<milliseconds>(
                std::chrono::duration<double>(mib(bytes) / *rate.mib_per_second));
        }
    }
    return curve;
}

double ReadProbe::rounds() const {
    double most = 0;
    for (const auto &[size, order] : orders_) {
        most = std::max(most, static_cast<double>(order.given()) / static_cast<double>(order.count()));
    }
    return most;
}

std::optional<ReadChoice> choose_reading(std::span<const ReadCurve> curves, uint64_t read_bytes) {
    std::vector<ReadChoice> measured;
    double best = 0;
    for (const ReadCurve &curve : curves) {
        for (const ReadRate &rate : curve.rates) {
            if (curve.read_bytes == read_bytes && rate.mib_per_second) {
                measured.push_back({curve.engine, rate.width, *rate.mib_per_second});
                best = std::max(best, *rate.mib_per_second);
            }
        }
    }
    std::optional<ReadChoice> choice;
    for (const ReadChoice &candidate : measured) {
        const bool better =
            !choice || candidate.width < choice->width ||
            (candidate.width == choice->width && candidate.mib_per_second > choice->mib_per_second);
        if (candidate.mib_per_second >= good_enough * best && better) {
            choice = candidate;
        }
    }
    return choice;
}

} // namespace sluice::storage
