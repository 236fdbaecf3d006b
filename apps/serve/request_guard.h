// Which requests are taken at all, and how the server ends: those that run are counted, and waited for.
#pragma once

#include "server-http.h"

#include <chrono>

struct common_params;

namespace sluice::serve {

/// What before_routing() (http_hook.h) goes by, before the server listens. It then refuses, before a body is
/// read:
///   - every request, once the server is ending;
///   - what a page of another site asks for. A browser names the site (Origin), and takes part of any local
///   server's
///     requests without asking, even where it hides the answer. Pages of this machine may ask; with keys,
///     pages of the server itself too; any page where --cors-origins was given.
/// It lets paths that is_public() (routes.h) pass llama.cpp's check of keys; all else is llama.cpp's to
/// decide.
void guard_with(const common_params &params);

/// `handler`, counted as running until its response is gone.
server_http_context::handler_t counted(server_http_context::handler_t handler);

/// Do requests run now? May be asked in a signal handler.
bool requests_run();
/// How many have begun since the process began. May be asked in a signal handler.
unsigned requests_begun();

/// From now on SIGTERM and SIGINT end the server: no new request is taken, those that run get `most` to
/// finish, then llama.cpp's own ending follows. A second signal ends the process at once. Does nothing where
/// signals are not the server's.
void drain_on_signals(std::chrono::seconds most);

/// Whether signals are the server's: yes for `sluice serve`, no (the default) where it runs inside a client.
void own_signals(bool own);
bool signals_are_owned();

} // namespace sluice::serve
