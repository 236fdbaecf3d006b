// Other processes that want what a run wants: memory and processors.
#pragma once

#include <cstdint>
#include <sys/types.h>
#include <vector>

namespace sluice::bench {

/// Children of this process, ended with it at the latest. Not thread-safe.
class Neighbours {
public:
    Neighbours() = default;
    ~Neighbours() { leave(); }
    Neighbours(const Neighbours &) = delete;
    Neighbours &operator=(const Neighbours &) = delete;

    /// One that fills so much memory and keeps it.
    void take_memory(uint64_t bytes);

    /// So many that compute without end.
    void take_processors(uint32_t count);

    /// All of them go.
    void leave();

private:
    std::vector<pid_t> children_;
};

/// Bytes of this process that are in memory now; 0 if unknown.
uint64_t resident_set_bytes();

} // namespace sluice::bench
