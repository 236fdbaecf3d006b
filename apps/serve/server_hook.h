// Put before llama.cpp's tools/server/server.cpp by the compiler (-include): the server is made of our two
// classes instead of the two that they derive from, so that Sluice can add routes, count requests and end in
// good order without a change to that file.
#pragma once

// What of llama.cpp's declares or uses these classes: it may not see the names defined below.
#include "server-context.h"
#include "server-http.h"
#include "server-models.h"
#include "server-stream.h"
#include "server-tools.h"

#include "arg.h"
#include "common.h"

namespace sluice::serve {

/// The HTTP side. Every request that a route answers is counted (request_guard.h).
class HttpContext : public server_http_context {
public:
    bool init(const common_params &params);
    /// Adds Sluice's routes, then listens.
    bool start();
    /// Waits until the server has ended; from now on SIGTERM and SIGINT end it in good order.
    void join();

    void get(const std::string &path, const handler_t &handler) const;
    void post(const std::string &path, const handler_t &handler) const;
    void del(const std::string &path, const handler_t &handler) const;
};

/// The model's side.
class ServerContext : public server_context {
public:
    /// As the base; false too for a model without a vocabulary, and where a client for conversations gets one
    /// that cannot continue a text.
    bool load_model(common_params &params);
    /// Answers until the server is told to end; from now on SIGTERM and SIGINT end it in good order.
    void start_loop();
};

} // namespace sluice::serve

#define server_http_context sluice::serve::HttpContext
#define server_context sluice::serve::ServerContext
