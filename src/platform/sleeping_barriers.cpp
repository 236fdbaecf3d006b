// Linked into every program of ours, before the OpenMP runtime reads its environment.
//
// ggml's compute threads meet at a barrier after every node of a graph. The runtime's own default is to spin
// there for milliseconds, on a core that reads, kernel threads and other programs then want. A few
// microseconds of spinning, then sleeping, costs nothing on an idle machine (docs/threads.md).

#include <cstdlib>

namespace {

// The runtimes read their environment in a constructor of default priority, which runs after those with a
// number. A variable of the user's that says anything about waiting is left to decide alone.
[[gnu::constructor(101)]] void let_barriers_sleep() {
    if (std::getenv("OMP_WAIT_POLICY") != nullptr) {
        return;
    }
    constexpr int kKeepTheUsers = 0;
    setenv("GOMP_SPINCOUNT", "1000", kKeepTheUsers); // GCC's runtime: turns of a loop, some microseconds
    setenv("KMP_BLOCKTIME", "0", kKeepTheUsers); // LLVM's: milliseconds, and it has nothing between 0 and 1
}

} // namespace
