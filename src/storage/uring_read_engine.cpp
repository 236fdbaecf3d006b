// Background reads by io_uring: the caller hands a batch to the kernel in one call, one thread takes the
// results. Reads that do not end as they should are finished by ordinary threads.
#include "storage/read_engine.h"

#include "platform/posix_calls.h"
#include "platform/reader_thread.h"
#include "storage/read_lanes.h"
#include "storage/read_tally.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <liburing.h>
#include <optional>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace sluice::storage {
namespace {

constexpr int most_in_flight = 1024;
/// Threads for what the ring does not do. Few: they are an exception.
constexpr int most_lanes = 4;
/// One read moves no more than this: its length is a 32-bit number, and Linux stops below 2 GiB at an odd
/// count.
constexpr size_t largest_read = size_t{1} << 30;
/// Marks the read of the eventfd, in place of a slot's number.
constexpr uint32_t wake_tag = UINT32_MAX;
/// How long to leave a kernel alone that lacks memory.
constexpr std::chrono::milliseconds breather{1};

/// Whether the kernel may well take the same submission later.
bool is_passing(int number) {
    return number == EAGAIN || number == EBUSY || number == EINTR || number == ENOMEM;
}

/// Why io_uring is refused, as an error of make_uring_read_engine().
Error refusal(int number) {
    if (number == ENOMEM || number == EMFILE || number == ENFILE) {
        return {ErrorCode::OutOfMemory,
                fmt::format("io_uring cannot be set up: {}", platform::errno_text(number))};
    }
    std::string why = platform::errno_text(number);
    if (number == ENOSYS) {
        why = "this kernel has none";
    } else if (number == EPERM || number == EACCES) {
        int disabled = 0;
        std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
        why = disabled != 0 ? fmt::format("the setting kernel.io_uring_disabled is {}", disabled)
                            : fmt::format("a seccomp filter or security policy forbids it ({})", why);
    }
    return {ErrorCode::Unsupported, fmt::format("io_uring cannot be used: {}", why)};
}

/// The two queues shared with the kernel, given back on destruction.
class Ring {
public:
    Ring() = default;
    ~Ring() {
        if (valid_) {
            io_uring_queue_exit(&ring_);
        }
    }
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    /// Sets the ring up and sends a request round, since a policy may allow the one and not the other.
    Status open(unsigned entries) {
        if (const int outcome = io_uring_queue_init(entries, &ring_, 0); outcome < 0) {
            return fail(refusal(-outcome));
        }
        valid_ = true;
        io_uring_prep_nop(io_uring_get_sqe(&ring_));
        io_uring_cqe *entry = nullptr;
        int outcome = io_uring_submit_and_wait(&ring_, 1);
        if (outcome >= 0 || outcome == -EINTR) {
            outcome = io_uring_wait_cqe(&ring_, &entry);
        }
        if (outcome < 0) {
            return fail(refusal(-outcome));
        }
        io_uring_cqe_seen(&ring_, entry);
        const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
            io_uring_get_probe_ring(&ring_), &io_uring_free_probe);
        if (probe == nullptr || io_uring_opcode_supported(probe.get(), IORING_OP_READ) == 0) {
            return fail(ErrorCode::Unsupported,
                        "io_uring cannot be used: this kernel's cannot read (5.6 can)");
        }
        return {};
    }

    io_uring *get() { return &ring_; }

private:
    io_uring ring_ = {};
    bool valid_ = false;
};

/// Writes to an eventfd: whoever reads it wakes up.
void send_wake_up(const platform::Descriptor &event) {
    const uint64_t one = 1;
    while (::write(event.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

/// The descriptor through which the ring can do this request; empty if ordinary threads must.
std::optional<int> descriptor_for(const ReadRequest &request) {
    if (request.file == nullptr || request.needed == 0 || request.needed > request.into.size()) {
        return std::nullopt;
    }
    return request.file->descriptor(request.access);
}

class UringReadEngine final : public IReadEngine {
public:
    UringReadEngine() = default;
    ~UringReadEngine() override;
    UringReadEngine(const UringReadEngine &) = delete;
    UringReadEngine &operator=(const UringReadEngine &) = delete;

    Status start(int depth);
    void submit(std::span<ReadRequest> requests) override;
    void set_width(int width) override;
    [[nodiscard]] ReadCounters counters() const override { return tally_.counters(); }

private:
    /// What the ring has brought, sorted by what is to be done with it.
    struct Harvest {
        JobList whole; ///< every byte is there
        JobList rest;  ///< for the lanes
    };

    // These four are called with mutex_ held.
    void pump(JobList &rest);
    void prepare(uint32_t slot);
    void flush(JobList &rest);
    void arm();

    /// One turn of thread_: takes what has come, gives the ring what fits. False when it is time to end.
    bool turn();
    /// Sleeps until the ring has brought something.
    void await();
    void reap(Harvest &harvest);
    void take(uint32_t slot, int outcome, Harvest &harvest);

    ReadTally tally_;
    ReadLanes lanes_{tally_};
    platform::Descriptor wake_; ///< an eventfd
    uint64_t wake_count_ = 0;   ///< where the eventfd's value goes
    Ring ring_;                 ///< its completion side belongs to thread_, its submission side to mutex_
    std::thread thread_;
    bool retry_soon_ = false;         ///< thread_'s own: something waits for the kernel to take it
    std::atomic<bool> broken_{false}; ///< the kernel has stopped taking submissions, for good

    std::mutex mutex_;              ///< guards everything below
    JobList queue_;                 ///< beyond the depth
    std::vector<JobList> slots_;    ///< the jobs given to the ring, one in each used slot
    std::vector<uint32_t> free_;    ///< unused slots
    std::vector<uint32_t> pending_; ///< slots (or wake_tag) filled in, not yet taken by the kernel; in order
    size_t width_ = 0;              ///< reads that may be with the ring at once
    size_t in_kernel_ = 0;          ///< reads taken by the kernel
    bool armed_ = false;            ///< the eventfd is being read
    bool stopping_ = false;
};

UringReadEngine::~UringReadEngine() {
    if (thread_.joinable()) {
        tally_.wait_until_idle();
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        send_wake_up(wake_);
        thread_.join();
    }
}

Status UringReadEngine::start(int depth) {
    wake_ = platform::Descriptor(::eventfd(0, EFD_CLOEXEC));
    if (!wake_.valid()) {
        return fail(refusal(errno));
    }
    if (Status opened = ring_.open(static_cast<unsigned>(depth) + 1); !opened) {
        return opened;
    }
    slots_.resize(static_cast<size_t>(depth));
    width_ = slots_.size();
    free_.reserve(slots_.size());
    pending_.reserve(slots_.size() + 1);
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
        free_.push_back(static_cast<uint32_t>(slots_.size()) - 1 - slot);
    }
    if (Status started = lanes_.start(std::min(depth, most_lanes)); !started) {
        return started;
    }
    Result<std::thread> thread = platform::start_reader_thread("sluice-uring", [this] {
        while (turn()) {
            await();
        }
    });
    if (!thread) {
        return fail(thread.error());
    }
    thread_ = std::move(*thread);
    return {};
}

void UringReadEngine::submit(std::span<ReadRequest> requests) {
    JobList for_ring = make_jobs(requests); // all that can fail comes first
    JobList for_lanes;
    tally_.begin(for_ring.size());
    for (auto job = for_ring.begin(); job != for_ring.end();) {
        const auto next = std::next(job);
        if (broken_ || !descriptor_for(job->request)) {
            for_lanes.splice(for_lanes.end(), for_ring, job);
        }
        job = next;
    }
    if (!for_ring.empty()) {
        const std::lock_guard lock(mutex_);
        queue_.splice(queue_.end(), for_ring);
        pump(for_lanes);
        if (in_kernel_ == 0 && !pending_.empty()) {
            send_wake_up(wake_); // nothing else would make the thread try again
        }
    }
    if (!for_lanes.empty()) {
        lanes_.push(std::move(for_lanes));
    }
}

void UringReadEngine::set_width(int width) {
    const std::lock_guard lock(mutex_);
    width_ = std::clamp<size_t>(static_cast<size_t>(std::max(width, 1)), 1, slots_.size());
}

/// Gives the kernel as much of the queue as the depth allows. What it will never take goes to `rest`.
void UringReadEngine::pump(JobList &rest) {
    if (broken_) {
        rest.splice(rest.end(), queue_);
    }
    while (!queue_.empty() && slots_.size() - free_.size() < width_) {
        const uint32_t slot = free_.back();
        free_.pop_back();
        slots_[slot].splice(slots_[slot].end(), queue_, queue_.begin());
        prepare(slot);
    }
    flush(rest);
}

void UringReadEngine::prepare(uint32_t slot) {
    const ReadRequest &request = slots_[slot].front().request;
    const bool direct = request.access == platform::Access::Direct;
    // Whole blocks past the page cache. Through it, no byte more than needed: what is cached costs a copy.
    const size_t length = std::min(direct ? request.into.size() : request.needed, largest_read);
    io_uring_sqe *entry = io_uring_get_sqe(ring_.get()); // there is one: the ring has more than slots_
    io_uring_prep_read(entry, *descriptor_for(request), request.into.data(), static_cast<unsigned>(length),
                       request.offset);
    io_uring_sqe_set_data64(entry, slot);
    if (!direct) {
        // Cached bytes would be copied by the submitting thread, which has to compute.
        io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    }
    pending_.push_back(slot);
}

void UringReadEngine::flush(JobList &rest) {
    while (!pending_.empty() && !broken_) {
        const int taken = io_uring_submit(ring_.get());
        if (taken > 0) {
            const auto end = pending_.begin() + std::min<std::ptrdiff_t>(taken, std::ssize(pending_));
            in_kernel_ += static_cast<size_t>(
                std::count_if(pending_.begin(), end, [](uint32_t tag) { return tag != wake_tag; }));
            pending_.erase(pending_.begin(), end);
        } else if (taken == 0 || is_passing(-taken)) {
            return; // the thread tries again
        } else {
            broken_ = true;
        }
    }
    if (broken_) {
        for (const uint32_t tag : pending_) {
            if (tag != wake_tag) {
                rest.splice(rest.end(), slots_[tag]);
            }
        }
        pending_.clear();
        rest.splice(rest.end(), queue_);
    }
}

/// Has the eventfd read by the ring, so that writing to it ends await(). Done by thread_ alone, because the
/// kernel cancels what a thread has submitted when that thread ends.
void UringReadEngine::arm() {
    io_uring_sqe *entry = io_uring_get_sqe(ring_.get());
    io_uring_prep_read(entry, wake_.get(), &wake_count_, sizeof(wake_count_), 0);
    io_uring_sqe_set_data64(entry, wake_tag);
    pending_.push_back(wake_tag);
    armed_ = true;
}

bool UringReadEngine::turn() {
    Harvest harvest;
    {
        const std::lock_guard lock(mutex_);
        reap(harvest);
        if (stopping_) {
            return false; // the destructor has waited for all requests
        }
        if (!armed_ && !broken_) {
            arm();
        }
        pump(harvest.rest);
        retry_soon_ = !pending_.empty() && in_kernel_ == 0;
    }
    if (!harvest.rest.empty()) {
        lanes_.push(std::move(harvest.rest));
    }
    for (ReadJob &job : harvest.whole) {
        tally_.finish(job.request, {}, false);
    }
    return true;
}

void UringReadEngine::await() {
    if (!broken_ && !retry_soon_) {
        io_uring_cqe *first = nullptr;
        const int outcome = io_uring_wait_cqe(ring_.get(), &first);
        if (outcome == 0 || is_passing(-outcome)) {
            return;
        }
        broken_ = true;
    }
    std::this_thread::sleep_for(breather);
}

void UringReadEngine::reap(Harvest &harvest) {
    io_uring_cqe *entry = nullptr;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(ring_.get(), head, entry) {
        ++seen;
        if (entry->user_data == wake_tag) {
            armed_ = false;
        } else {
            take(static_cast<uint32_t>(entry->user_data), entry->res, harvest);
        }
    }
    io_uring_cq_advance(ring_.get(), seen);
}

void UringReadEngine::take(uint32_t slot, int outcome, Harvest &harvest) {
    ReadJob &job = slots_[slot].front();
    --in_kernel_;
    free_.push_back(slot);
    const size_t arrived = outcome > 0 ? static_cast<size_t>(outcome) : 0;
    if (arrived >= job.request.needed) {
        harvest.whole.splice(harvest.whole.end(), slots_[slot]);
        return;
    }
    // A short read, an error, or cancelled since the thread that submitted it has ended: an ordinary read of
    // what is missing either brings it or can say what is wrong.
    job.arrived = arrived;
    harvest.rest.splice(harvest.rest.end(), slots_[slot]);
}

} // namespace

Result<std::unique_ptr<IReadEngine>> make_uring_read_engine(int depth) {
    if (depth < 1 || depth > most_in_flight) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} reads in flight asked for; 1 to {} are possible", depth, most_in_flight));
    }
    auto engine = std::make_unique<UringReadEngine>();
    if (Status started = engine->start(depth); !started) {
        return fail(started.error());
    }
    return engine;
}

} // namespace sluice::storage
