#include "storage/split_reads.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice::storage {

namespace {

// Parts begin where no device's block or page is cut in two.
constexpr size_t kSplitBlock = 4096;

/// What the parts of one request share.
class Whole {
public:
    Whole(size_t parts, std::function<void(Status)> done) : left_(parts), done_(std::move(done)) {}

    void part_ended(Status status) {
        if (!status) {
            const std::lock_guard lock(mutex_);
            if (outcome_) {
                outcome_ = std::move(status);
            }
        }
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            done_(std::move(outcome_));
        }
    }

private:
    std::atomic<size_t> left_;
    std::function<void(Status)> done_;
    std::mutex mutex_;
    Status outcome_;
};

void split(const ReadRequest &request, size_t parts, std::vector<ReadRequest> &into) {
    const size_t even = (request.into.size() + parts - 1) / parts;
    const size_t block = std::max(request.file == nullptr ? 1 : request.file->alignment(), kSplitBlock);
    const size_t size = (even + block - 1) / block * block;
    const size_t count = (request.into.size() + size - 1) / size;
    const auto whole = std::make_shared<Whole>(count, request.done);
    for (size_t at = 0; at < request.into.size(); at += size) {
        ReadRequest &part = into.emplace_back(request);
        part.offset = request.offset + at;
        part.into = request.into.subspan(at, std::min(size, request.into.size() - at));
        part.needed = std::min(part.into.size(), request.needed - std::min(request.needed, at));
        part.done = [whole](Status status) { whole->part_ended(std::move(status)); };
    }
}

} // namespace

std::vector<ReadRequest> split_few(std::span<const ReadRequest> requests, size_t lanes) {
    if (requests.empty() || requests.size() >= lanes) {
        return {requests.begin(), requests.end()};
    }
    const size_t wanted = (lanes + requests.size() - 1) / requests.size();
    std::vector<ReadRequest> all;
    for (const ReadRequest &request : requests) {
        const size_t parts = std::min(wanted, request.needed / kLeastSplitBytes);
        if (parts > 1) {
            split(request, parts, all);
        } else {
            all.push_back(request);
        }
    }
    return all;
}

} // namespace sluice::storage
