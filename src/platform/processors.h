// Which processors this process may compute on, and with how much of their time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::platform {

/// What the system says at one moment. An empty optional means "no limit" or "could not be measured".
struct Processors {
    int cores = 1;                   ///< physical cores this process may run on, hyper-threads counted once
    std::optional<int> allowed = {}; ///< processors that its compute threads may run on, hyper-threads too
    std::optional<int> online = {};  ///< processors of the machine
    std::optional<int> fast_cores = {};    ///< of `cores`, those worth a compute thread; empty: all are alike
    std::optional<double> quota = {};      ///< cores' worth of time that the tightest control group allows
    std::optional<int> runtime_limit = {}; ///< threads that the OpenMP runtime lets compute together
};

/// The processors this process's compute threads may run on: those that an OpenMP runtime binds them to, else
/// the calling thread's. Empty if the system does not say. Safe on any thread.
std::vector<size_t> allowed_processors();

/// Topology, capacities and control groups are read below `root`; so that tests can fake a machine, `allowed`
/// may be given, too. Without it the running system is asked.
Processors read_processors(const std::string &root = "",
                           const std::vector<size_t> &allowed = allowed_processors());

/// How many of the cores of these capacities should compute: those as fast as the k-th fastest, with k such
/// that k times that one's capacity is largest. Compute threads meet at a barrier after every node of a
/// graph, and what ggml shares out in equal parts is finished when its slowest part is, so k threads do k
/// times the work of the slowest. Four cores of 1024 beside four of 400 are four (4096 against 3200); beside
/// four of 700 they are eight. A fixed share of the fastest would leave one thread where one core is much
/// faster than seven alike. 0 for none.
int cores_worth_using(std::vector<uint64_t> capacities);

/// How many threads compute unless the user says, and what decided that, for people.
struct ThreadChoice {
    int threads = 1;
    std::string reason;
};

/// The smallest of the cores worth using, the quota, rounded down, and the runtime's limit, at least 1:
/// whoever uses a quota up is stopped for the rest of its period, most likely inside a barrier at which the
/// others wait.
ThreadChoice default_threads(const Processors &processors);

/// How many threads will compute if so many are `asked` for; 0: as many as suit the machine.
int threads_that_compute(int asked, const Processors &processors);

/// A sentence if that many compute threads are more than affinity, quota or runtime allow; empty if they are
/// not, or if nothing is known. A hyper-thread counts here: to use both of a core is a matter of taste.
std::optional<std::string> too_many_threads(int threads, const Processors &processors);

} // namespace sluice::platform
