#include "platform/reader_thread.h"

#include "platform/compute_runtime.h"
#include "platform/time_slice.h"

#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <pthread.h>
#include <system_error>
#include <utility>

namespace sluice::platform {
namespace {

// A reader computes for microseconds, but every one of them that it waits for a core delays a read. 0: the
// system's own slice.
constexpr std::chrono::microseconds kTimeSlice{100};

/// While it lives, threads started by this one are born deaf to signals.
class QuietBirth {
public:
    QuietBirth() {
        sigset_t quiet;
        sigfillset(&quiet);
        // Faults of the thread itself must stay deliverable, for crash reports.
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
            sigdelset(&quiet, fault);
        }
        restore_ = pthread_sigmask(SIG_BLOCK, &quiet, &before_) == 0;
    }
    ~QuietBirth() {
        if (restore_) {
            pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        }
    }
    QuietBirth(const QuietBirth &) = delete;
    QuietBirth &operator=(const QuietBirth &) = delete;

private:
    sigset_t before_ = {};
    bool restore_ = false;
};

void name_this_thread(const std::string &name) {
#ifdef __APPLE__
    pthread_setname_np(name.c_str());
#else
    pthread_setname_np(pthread_self(), name.c_str());
#endif
}

} // namespace

Result<std::thread> start_reader_thread(const std::string &name, std::function<void()> body) {
    const QuietBirth quiet;
    try {
        return std::thread([name, body = std::move(body)] {
            name_this_thread(name);
            platform::leave_runtime_places();
            if (kTimeSlice.count() > 0) {
                platform::set_time_slice(kTimeSlice);
            }
            body();
        });
    } catch (const std::system_error &error) {
        return fail(ErrorCode::OutOfMemory,
                    fmt::format("cannot start the thread {}: {}", name, error.code().message()));
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("no memory for the thread {}", name));
    }
}

} // namespace sluice::platform
