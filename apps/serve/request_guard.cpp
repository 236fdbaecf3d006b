#include "request_guard.h"

#include "http_hook.h"
#include "routes.h"

#include "common.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

#undef set_pre_routing_handler

void llama_server_terminate(); // tools/server/server.cpp; no header of llama.cpp declares it

namespace sluice::serve {

namespace {

/// Requests that run now.
class Running {
public:
    void begin() {
        const std::lock_guard lock(mutex_);
        ++count_;
        ++begun_;
    }
    void end() {
        const std::lock_guard lock(mutex_);
        --count_;
        none_.notify_all();
    }
    [[nodiscard]] bool any() const { return count_ > 0; }
    [[nodiscard]] unsigned begun() const { return begun_; }
    /// Waits until none runs, or until `most` is over. True: none.
    bool wait_for_none(std::chrono::seconds most) {
        std::unique_lock lock(mutex_);
        return none_.wait_for(lock, most, [this] { return count_ == 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable none_;
    std::atomic<int> count_{0}; ///< changed under the lock, as the other
    std::atomic<unsigned> begun_{0};
};

/// Counts a request as long as it lives.
class Ticket {
public:
    explicit Ticket(Running &running) : running_(running) { running_.begin(); }
    ~Ticket() { running_.end(); }
    Ticket(const Ticket &) = delete;
    Ticket &operator=(const Ticket &) = delete;

private:
    Running &running_;
};

Running running;
std::atomic<bool> ending{false};
std::atomic<bool> signals_are_ours{false};
bool any_origin = false;
bool has_keys = false;
int signal_pipe[2] = {-1, -1};
volatile std::sig_atomic_t signals_seen = 0;

httplib::Server::HandlerResponse refuse(httplib::Response &response, int status, const char *type,
                                        const char *message) {
    response.status = status;
    response.set_content(std::string(R"({"error":{"code":)") + std::to_string(status) + R"(,"message":")" +
                             message + R"(","type":")" + type + "\"}}",
                         "application/json; charset=utf-8");
    return httplib::Server::HandlerResponse::Handled;
}

/// "http://host:port" to "host"; what cannot be one ("null" of a local file) stays as it is.
std::string host_of(std::string text) {
    if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
        text.erase(0, scheme + 3);
    }
    if (text.starts_with('[')) {
        return text.substr(0, text.find(']') + 1);
    }
    return text.substr(0, text.find(':'));
}

bool may_ask(const httplib::Request &request) {
    const std::string origin = request.get_header_value("Origin");
    if (origin.empty() || any_origin) {
        return true;
    }
    const std::string host = host_of(origin);
    return host == "localhost" || host == "127.0.0.1" || host == "[::1]" ||
           (has_keys && host == host_of(request.get_header_value("Host")));
}

extern "C" void note_signal(int /*signal*/) {
    signals_seen = signals_seen + 1;
    if (signals_seen > 1) {
        std::_Exit(1);
    }
    const int before = errno;
    const char byte = 0;
    (void)!write(signal_pipe[1], &byte, 1);
    errno = before;
}

void end_in_good_order(std::chrono::seconds most) {
    char byte = 0;
    while (read(signal_pipe[0], &byte, 1) < 0 && errno == EINTR) {
    }
    ending = true;
    if (!running.wait_for_none(std::chrono::seconds(0))) {
        std::fprintf(stderr, "sluice: ending; requests that run may take %lld seconds more\n",
                     static_cast<long long>(most.count()));
        if (!running.wait_for_none(most)) {
            std::fprintf(stderr, "sluice: requests that still run are cut off\n");
        }
    }
    llama_server_terminate();
}

} // namespace

void guard_with(const common_params &params) {
    any_origin = params.cors_origins_explicit;
    has_keys = !params.api_keys.empty();
}

httplib::Server::HandlerWithResponse before_routing(httplib::Server::HandlerWithResponse theirs) {
    return [theirs = std::move(theirs)](const httplib::Request &request, httplib::Response &response) {
        if (ending) {
            return refuse(response, 503, "unavailable_error", "the server is ending");
        }
        if (!may_ask(request)) {
            return refuse(response, 403, "permission_error",
                          "pages of other sites may not ask this server (see --cors-origins)");
        }
        if (request.method == "GET" && is_public(request.path)) {
            return httplib::Server::HandlerResponse::Unhandled;
        }
        return theirs(request, response);
    };
}

server_http_context::handler_t counted(server_http_context::handler_t handler) {
    return [handler = std::move(handler)](const server_http_req &request) {
        auto ticket = std::make_shared<Ticket>(running);
        auto response = handler(request);
        if (response != nullptr && response->is_stream()) {
            response->next = [next = std::move(response->next),
                              ticket = std::move(ticket)](std::string &chunk) { return next(chunk); };
        }
        return response;
    };
}

bool requests_run() {
    return running.any();
}

void own_signals(bool own) {
    signals_are_ours = own;
}

unsigned requests_begun() {
    return running.begun();
}

bool signals_are_owned() {
    return signals_are_ours;
}

void drain_on_signals(std::chrono::seconds most) {
    if (!signals_are_ours || signal_pipe[0] >= 0 || pipe(signal_pipe) != 0) {
        return;
    }
    std::thread(end_in_good_order, most).detach(); // it waits for a signal that may never come
    struct sigaction action = {};
    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
}

} // namespace sluice::serve
