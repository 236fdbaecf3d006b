// Files that fail on purpose: a layer over another file system that follows a shared plan of faults.
#pragma once

#include "platform/file.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::platform {

/// One planned fault. Say what goes wrong (any of the last four, also together), where, and how often.
struct Fault {
    uint64_t nth = 1;                ///< strikes the n-th matching read, counted from 1 over all files
    bool and_after = false;          ///< strikes every matching read from the n-th on
    uint64_t from_offset = 0;        ///< matches reads that start here or later (bytes)
    std::optional<Access> only = {}; ///< matches reads of this access; empty for any
    std::string path_contains = {};  ///< matches files whose path contains this; empty for any

    size_t short_by = 0;                ///< so many bytes at the end do not arrive (at most all)
    bool no_progress = false;           ///< nothing arrives, as if interrupted
    int error_number = 0;               ///< an errno value, such as EIO: the read fails with it
    std::chrono::milliseconds delay{0}; ///< the read takes so much longer
};

/// The faults to come and what was read so far. Thread-safe; shared by all files opened through it.
class FaultPlan {
public:
    /// What happened so far, refused and shortened reads included.
    struct Counts {
        uint64_t reads = 0;        ///< read_at calls
        uint64_t direct_reads = 0; ///< those of them with Access::Direct
        uint64_t bytes = 0;        ///< bytes handed out
        uint64_t struck = 0;       ///< reads that a fault changed
        uint64_t opened = 0;       ///< files opened
        uint64_t maps = 0;         ///< map_over calls
    };

    /// Adds a fault; it counts the reads from now on.
    void add(Fault fault);
    /// Fails every map_over from now on with this errno value; what it was to map over stays as it was.
    void fail_maps(int error_number);
    /// Forgets all faults; counts stay.
    void clear();
    [[nodiscard]] Counts counts() const;

private:
    friend class FaultFile;
    friend class FaultFileSystem;

    struct Armed {
        Fault fault;
        uint64_t seen = 0;
    };

    /// Counts a read and says what becomes of it: the matching faults, merged.
    Fault strike(const std::string &path, uint64_t offset, Access access);
    void count_bytes(size_t bytes);
    void count_open();
    /// Counts a map_over and says with which errno value it fails, 0 for none.
    int strike_map();

    mutable std::mutex mutex_;
    std::vector<Armed> faults_;
    int map_error_number_ = 0;
    Counts counts_;
};

/// A file that reads another one and strikes as planned. Bytes that "do not arrive" are overwritten with
/// rubbish, so that anyone who uses them all the same gets caught.
class FaultFile final : public IFile {
public:
    FaultFile(std::unique_ptr<IFile> inner, std::shared_ptr<FaultPlan> plan)
        : inner_(std::move(inner)), plan_(std::move(plan)) {}

    Result<size_t> read_at(uint64_t offset, std::span<std::byte> into, Access access) override;
    Status map_over(uint64_t offset, std::span<std::byte> where, MapAdvice advice) override;
    [[nodiscard]] uint64_t size() const override { return inner_->size(); }
    [[nodiscard]] size_t alignment() const override { return inner_->alignment(); }
    [[nodiscard]] bool direct_trusted() const override { return inner_->direct_trusted(); }
    [[nodiscard]] const std::string &direct_refusal() const override { return inner_->direct_refusal(); }
    [[nodiscard]] const std::string &path() const override { return inner_->path(); }

private:
    std::unique_ptr<IFile> inner_;
    std::shared_ptr<FaultPlan> plan_;
};

/// Opens files of another file system (which must outlive this one) as FaultFiles.
class FaultFileSystem final : public IFileSystem {
public:
    explicit FaultFileSystem(std::shared_ptr<FaultPlan> plan, IFileSystem &inner = system_files())
        : plan_(std::move(plan)), inner_(inner) {}

    Result<std::unique_ptr<IFile>> open(const std::string &path, bool want_direct) override;

private:
    std::shared_ptr<FaultPlan> plan_;
    IFileSystem &inner_;
};

} // namespace sluice::platform
