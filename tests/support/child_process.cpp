#include "support/child_process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::test {

namespace {

using Clock = std::chrono::steady_clock;

/// A file descriptor that closes itself.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor() { reset(); }
    Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    void reset() {
        if (number_ >= 0) {
            ::close(std::exchange(number_, -1));
        }
    }
    [[nodiscard]] int get() const { return number_; }

private:
    int number_;
};

struct Pipe {
    Descriptor read, write;

    Pipe() {
        std::array<int, 2> ends{-1, -1};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0) << std::strerror(errno);
        read = Descriptor(ends[0]);
        write = Descriptor(ends[1]);
    }
};

/// While it lives, writing to a child that ended is an error instead of the test's death.
class IgnoreSigpipe {
public:
    IgnoreSigpipe() : old_(std::signal(SIGPIPE, SIG_IGN)) {}
    ~IgnoreSigpipe() { std::signal(SIGPIPE, old_); }
    IgnoreSigpipe(const IgnoreSigpipe &) = delete;
    IgnoreSigpipe &operator=(const IgnoreSigpipe &) = delete;

private:
    void (*old_)(int);
};

/// One run of a child.
class Child {
public:
    explicit Child(const ChildOptions &options) : options_(options) {}

    ChildResult run(const std::string &program, const std::vector<std::string> &arguments) {
        if (start(program, arguments)) {
            while (!ended()) {
                exchange();
                send_signal();
                if (Clock::now() > deadline_) {
                    ::kill(-pid_, SIGKILL); // its own process group: with all that it started
                    ADD_FAILURE() << program << " had to be killed; stderr so far:\n" << result_.err;
                    deadline_ = Clock::time_point::max();
                }
            }
            drain();
        }
        return std::move(result_);
    }

private:
    bool start(const std::string &program, const std::vector<std::string> &arguments) {
        std::vector<std::string> texts{program};
        texts.insert(texts.end(), arguments.begin(), arguments.end());
        std::vector<char *> argv;
        for (std::string &text : texts) {
            argv.push_back(text.data());
        }
        argv.push_back(nullptr);
        Descriptor file;
        if (!options_.stdout_file.empty()) {
            file = Descriptor(::open(options_.stdout_file.c_str(), O_WRONLY | O_CLOEXEC));
            EXPECT_GE(file.get(), 0) << options_.stdout_file << ": " << std::strerror(errno);
        }
        pid_ = ::fork();
        if (pid_ == 0) {
            become(argv.data(), file.get() >= 0 ? file.get() : out_.write.get());
        }
        ::setpgid(pid_, pid_); // both sides do: whichever comes first
        in_.read.reset();
        out_.write.reset();
        err_.write.reset();
        for (const Pipe *pipe : {&out_, &err_}) {
            ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
        }
        ::fcntl(in_.write.get(), F_SETFL, O_NONBLOCK);
        EXPECT_GT(pid_, 0) << std::strerror(errno);
        return pid_ > 0;
    }

    /// In the child: only calls that are safe after fork().
    [[noreturn]] void become(char *const *argv, int stdout_to) const {
        ::setpgid(0, 0);
        for (const int inherited : {SIGPIPE, SIGINT}) {
            std::signal(inherited, SIG_DFL); // whatever the test was started with
        }
        ::dup2(in_.read.get(), STDIN_FILENO);
        ::dup2(stdout_to, STDOUT_FILENO);
        ::dup2(err_.write.get(), STDERR_FILENO);
        if (options_.close_stdout) {
            ::close(STDOUT_FILENO);
        }
        if (!options_.join_group.empty()) {
            const int group = ::open(options_.join_group.c_str(), O_WRONLY | O_CLOEXEC);
            if (group < 0 || ::write(group, "0", 1) != 1) { // 0: whoever writes
                ::_exit(126);
            }
        }
        for (const auto &[resource, limit] : options_.limits) {
            const rlimit both{limit, limit};
            ::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &both);
        }
        ::execv(argv[0], argv);
        ::_exit(127);
    }

    /// Waits a moment for the child's streams and moves what there is to move.
    void exchange() {
        std::array<pollfd, 3> waits{pollfd{out_.read.get(), POLLIN, 0}, pollfd{err_.read.get(), POLLIN, 0},
                                    pollfd{in_.write.get(), POLLOUT, 0}};
        const bool input_left = written_ < options_.input.size();
        if (!input_left && !options_.keep_stdin_open) {
            in_.write.reset();
        }
        ::poll(waits.data(), input_left ? 3 : 2, 10);
        if (input_left) {
            const ssize_t count =
                ::write(in_.write.get(), options_.input.data() + written_, options_.input.size() - written_);
            if (count > 0) {
                written_ += static_cast<size_t>(count);
            } else if (count < 0 && errno != EAGAIN) {
                written_ = options_.input.size(); // it doesn't read any more
            }
        }
        drain();
    }

    void drain() {
        read_all(out_.read, result_.out);
        read_all(err_.read, result_.err);
        if (options_.hang_up_after && result_.out.size() >= *options_.hang_up_after) {
            out_.read.reset();
        }
    }

    static void read_all(Descriptor &from, std::string &text) {
        std::array<char, 4096> part{};
        ssize_t count = 0;
        while (from.get() >= 0 && (count = ::read(from.get(), part.data(), part.size())) > 0) {
            text.append(part.data(), static_cast<size_t>(count));
        }
        if (count == 0) {
            from.reset(); // its end: poll() would report it without cease
        }
    }

    void send_signal() {
        const bool happened = options_.signal_when.empty()
                                  ? !result_.out.empty()
                                  : result_.err.find(options_.signal_when) != std::string::npos;
        if (options_.signal != 0 && happened && (!signalled_ || options_.signal_again)) {
            ::kill(pid_, options_.signal);
            signalled_ = true;
        }
    }

    bool ended() {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) != pid_) {
            return false;
        }
        if (WIFEXITED(status)) {
            result_.exit_code = WEXITSTATUS(status);
        } else {
            result_.signal = WTERMSIG(status);
        }
        return true;
    }

    const ChildOptions &options_;
    const IgnoreSigpipe no_sigpipe_;
    Clock::time_point deadline_ = Clock::now() + std::chrono::seconds(options_.timeout_seconds);
    Pipe in_, out_, err_;
    pid_t pid_ = -1;
    size_t written_ = 0;
    bool signalled_ = false;
    ChildResult result_;
};

} // namespace

std::vector<std::string> ChildResult::err_lines() const {
    std::vector<std::string> lines;
    std::istringstream stream(err);
    for (std::string line; std::getline(stream, line);) {
        if (!line.empty()) {
            lines.push_back(line);
        }
    }
    return lines;
}

ChildResult run_child(const std::string &program, const std::vector<std::string> &arguments,
                      const ChildOptions &options) {
    return Child(options).run(program, arguments);
}

} // namespace sluice::test
