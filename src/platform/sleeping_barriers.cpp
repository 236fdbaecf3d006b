// Linked into every program of ours, before the OpenMP runtime reads its environment.
//
// ggml's compute threads meet at a barrier after every node of a graph. The runtime's own default is to spin
// there for milliseconds, on a core that reads, kernel threads and other programs then want. A few
// microseconds of spinning, then sleeping, costs nothing on an idle machine (docs/threads.md).

#include "platform/barrier_variables.h"

#include <cstdlib>

namespace {

/// Whether the user set the variable to something that `means` anything; else it is gone, since a runtime
/// would take its own default for it.
template <typename Meaning>
bool is_meant(const char *name, Meaning means) {
    const char *value = std::getenv(name);
    if (value != nullptr && means(value)) {
        return true;
    }
    unsetenv(name);
    return false;
}

// The runtimes read their environment in a constructor of default priority, which runs after those with a
// number. A variable of the user's that says anything about waiting is left to decide alone.
[[gnu::constructor(101)]] void let_barriers_sleep() {
    using namespace sluice::platform;
    const auto is_count = [](const char *value) { return spin_count(value).has_value(); };
    const auto is_policy = [](const char *value) { return spins_by_policy(value).has_value(); };
    const auto is_something = [](const char *value) { return !trimmed(value).empty(); };
    const bool count_given = is_meant("GOMP_SPINCOUNT", is_count);
    const bool time_given = is_meant("KMP_BLOCKTIME", is_something);
    if (is_meant("OMP_WAIT_POLICY", is_policy)) {
        return;
    }
    constexpr int kReplace = 1;
    if (!count_given) {
        setenv("GOMP_SPINCOUNT", "1000", kReplace); // GCC's runtime: turns of a loop, some microseconds
    }
    if (!time_given) {
        setenv("KMP_BLOCKTIME", "0", kReplace); // LLVM's: milliseconds, and it has nothing between 0 and 1
    }
}

} // namespace
