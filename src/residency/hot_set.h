// What was in the expert cache at the end of a run, kept so that the next run of the same file begins with
// it.
#pragma once

#include "base/error.h"
#include "residency/expert_cache.h"
#include "residency/slot_plan.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::residency {

/// Tells one model file from another, and from an earlier state of itself. Plain data.
struct FileIdentity {
    std::string path;     ///< absolute
    uint64_t bytes = 0;   ///< of all shards
    int64_t modified = 0; ///< of the first shard, in ticks of its clock
    bool operator==(const FileIdentity &) const = default;
};

/// The identity of the model at `path`, with `bytes` in all shards. What cannot be found out stays empty.
FileIdentity identify_file(const std::string &path, uint64_t bytes);

/// As text, and back. Text that is damaged, of another version or about another file gives nothing, and so do
/// slices that `banks` does not have: it is a hint, not data that anybody relies on.
std::string hot_set_to_json(const FileIdentity &file, std::span<const Bank> banks,
                            std::span<const SliceKey> slices);
std::vector<SliceKey> hot_set_from_json(std::string_view text, const FileIdentity &file,
                                        std::span<const Bank> banks);

/// As many of `slices` (hottest first) as the classes of `plan` have slots, in file order.
std::vector<SliceKey> reading_order(std::span<const SliceKey> slices, std::span<const Bank> banks,
                                    const SlotPlan &plan);

/// One model's hot set on disk. Thread-safe.
class HotSet {
public:
    /// `folder`: where it is kept; the file's name follows from the model's path.
    HotSet(const std::string &folder, FileIdentity file);

    /// Has `cache` read what was hot last time, in the background and after everything that is asked for.
    void warm(ExpertCache &cache, const std::vector<Bank> &banks) const;

    /// Keeps what is in `cache` now, unless that is nothing. Errors: PermissionDenied, Io.
    Status keep(const ExpertCache &cache, const std::vector<Bank> &banks) const;

    /// keep(), if the last time is a minute ago. Call between graphs. The first failure is said on stderr,
    /// and then there are no more tries.
    void keep_now_and_then(const ExpertCache &cache, const std::vector<Bank> &banks);

    [[nodiscard]] const std::string &path() const { return path_; }

private:
    FileIdentity file_;
    std::string path_;
    std::mutex mutex_; ///< guards what follows
    std::chrono::steady_clock::time_point next_;
    bool failed_ = false;
};

} // namespace sluice::residency
