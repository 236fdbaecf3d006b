#include "platform/child_program.h"

#include "platform/posix_calls.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace sluice::platform {

namespace {

struct Pipe {
    Descriptor read;
    Descriptor write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe(ends.data()) != 0) {
        return fail(ErrorCode::Io, fmt::format("cannot make a pipe: {}", errno_text(errno)));
    }
    for (const int end : ends) {
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// In the child: only calls that are safe after fork().
[[noreturn]] void become(char *const *argv, int in, int out, int err) {
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execv(argv[0], argv);
    ::_exit(127);
}

/// Moves what has arrived. False once the end has come.
bool take(const Descriptor &from, std::string &text) {
    std::array<char, 4096> part{};
    for (;;) {
        const ssize_t count = ::read(from.get(), part.data(), part.size());
        if (count > 0) {
            text.append(part.data(), static_cast<size_t>(count));
        } else if (count == 0 || errno != EINTR) {
            return count != 0 && errno == EAGAIN;
        }
    }
}

void keep_end(std::string &text) {
    constexpr size_t kMost = size_t{64} << 10U;
    if (text.size() > kMost) {
        text.erase(0, text.size() - kMost);
    }
}

/// Collects what the child writes until both streams have ended. False if it was to stop before.
bool listen(const Descriptor &out, const Descriptor &err, const std::function<bool()> &go_on,
            ProgramRun &run) {
    constexpr int kWaitMilliseconds = 100;
    bool out_open = true;
    bool err_open = true;
    while (out_open || err_open) {
        if (!go_on()) {
            return false;
        }
        // A negative descriptor is passed over.
        std::array<pollfd, 2> waits{pollfd{out_open ? out.get() : -1, POLLIN, 0},
                                    pollfd{err_open ? err.get() : -1, POLLIN, 0}};
        if (::poll(waits.data(), waits.size(), kWaitMilliseconds) <= 0) {
            continue;
        }
        out_open = out_open && (waits[0].revents == 0 || take(out, run.out));
        err_open = err_open && (waits[1].revents == 0 || take(err, run.err));
        keep_end(run.err);
    }
    return true;
}

void wait_for(pid_t child, ProgramRun &run) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) {
        run.exit_code = WEXITSTATUS(status);
    } else if (WIFSIGNALED(status)) {
        run.signal = WTERMSIG(status);
    }
}

} // namespace

Result<ProgramRun> run_program(const std::string &path, const std::vector<std::string> &arguments,
                               const std::function<bool()> &go_on) {
    std::vector<std::string> texts{path};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char *> argv;
    argv.reserve(texts.size() + 1);
    for (std::string &text : texts) {
        argv.push_back(text.data());
    }
    argv.push_back(nullptr);
    auto out = make_pipe();
    auto err = make_pipe();
    if (!out || !err) {
        return fail(out ? err.error() : out.error());
    }
    const Descriptor in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const pid_t child = ::fork();
    if (child == 0) {
        become(argv.data(), in.get(), out->write.get(), err->write.get());
    }
    if (child < 0) {
        return fail(ErrorCode::Io, fmt::format("cannot start {}: {}", path, errno_text(errno)));
    }
    out->write = Descriptor();
    err->write = Descriptor();
    ProgramRun run;
    const bool whole = listen(out->read, err->read, go_on, run);
    if (!whole) {
        ::kill(child, SIGKILL);
    }
    wait_for(child, run);
    if (!whole) {
        return fail(ErrorCode::Cancelled, "interrupted");
    }
    if (run.exit_code == 127 && run.out.empty() && run.err.empty()) {
        return fail(ErrorCode::Io, fmt::format("cannot start {}", path));
    }
    return run;
}

std::string own_program() {
    std::error_code unknown;
    return std::filesystem::read_symlink("/proc/self/exe", unknown).string();
}

} // namespace sluice::platform
