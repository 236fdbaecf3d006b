// Put before llama.cpp's tools/server/server-http.cpp by the compiler (-include): what it does before a
// request is routed, and before its body is read, is wrapped by ours.
#pragma once

#include "http.h" // httplib: it must not see the name defined below

namespace sluice::serve {

/// `theirs` with what must come before it: see request_guard.h.
httplib::Server::HandlerWithResponse before_routing(httplib::Server::HandlerWithResponse theirs);

} // namespace sluice::serve

// The name inside its own definition is not replaced again.
#define set_pre_routing_handler(...) set_pre_routing_handler(sluice::serve::before_routing(__VA_ARGS__))
