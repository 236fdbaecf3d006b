#include "flash_routes.h" // first: server_hook.h gives server_http_context another meaning

#include "server_hook.h"

#include "request_guard.h"
#include "routes.h"

#include <cstdio>

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
    const bool started = server_http_context::start();
    if (started) {
        announce_flash(*this);
    }
    return started;
}

void HttpContext::join() {
    drain_on_signals(kMostToFinish);
    server_http_context::join();
}

void HttpContext::get(const std::string &path, const handler_t &handler) const {
    server_http_context::get(path, counted(path == "/metrics" ? with_flash_metrics(handler) : handler));
}

void HttpContext::post(const std::string &path, const handler_t &handler) const {
    server_http_context::post(path, counted(handler));
}

void HttpContext::del(const std::string &path, const handler_t &handler) const {
    server_http_context::del(path, counted(handler));
}

bool ServerContext::load_model(common_params &params) {
    if (!server_context::load_model(params)) {
        return false;
    }
    const llama_vocab *vocabulary = llama_model_get_vocab(llama_get_model(get_llama_context()));
    if (llama_vocab_type(vocabulary) == LLAMA_VOCAB_TYPE_NONE) {
        std::fprintf(stderr, "sluice: %s has no vocabulary, so it can't read or write text\n",
                     params.model.path.c_str());
        return false;
    }
    const bool for_a_client = !signals_are_owned();
    if (for_a_client && llama_get_memory(get_llama_context()) == nullptr) {
        std::fprintf(stderr, "sluice: %s cannot continue a text: it is an encoder or a diffusion model\n",
                     params.model.path.c_str());
        return false;
    }
    return true;
}

void ServerContext::start_loop() {
    drain_on_signals(kMostToFinish);
    server_context::start_loop();
}

} // namespace sluice::serve
