#include "server_hook.h"

#include "request_guard.h"
#include "routes.h"

#undef server_http_context
#undef server_context

namespace sluice::serve {

namespace {

constexpr std::chrono::seconds kMostToFinish{30};

} // namespace

bool HttpContext::init(const common_params &params) {
    guard_with(params);
    return server_http_context::init(params);
}

bool HttpContext::start() {
    add_routes(*this);
    return server_http_context::start();
}

void HttpContext::join() {
    drain_on_signals(kMostToFinish);
    server_http_context::join();
}

void HttpContext::get(const std::string &path, const handler_t &handler) const {
    server_http_context::get(path, counted(handler));
}

void HttpContext::post(const std::string &path, const handler_t &handler) const {
    server_http_context::post(path, counted(handler));
}

void HttpContext::del(const std::string &path, const handler_t &handler) const {
    server_http_context::del(path, counted(handler));
}

void ServerContext::start_loop() {
    drain_on_signals(kMostToFinish);
    server_context::start_loop();
}

} // namespace sluice::serve
