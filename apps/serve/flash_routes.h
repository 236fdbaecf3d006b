// The flash panel's routes in llama.cpp's server. docs/flash.md says what they answer.
#pragma once

#include "settings_list.h"

#include "server-http.h"

#include <string>

namespace sluice::serve {

/// What the panel tells of how the server was started; before add_flash_routes().
void set_flash_facts(flash::StartFacts facts);

/// Adds the routes, and the pages where this build has them. Streams of events are not counted as requests
/// that run: they go on as long as somebody looks, and a server that is to end does not wait for them. All of
/// it ends with the server's handlers.
void add_flash_routes(const server_http_context &http);

/// Says on standard error where the panel is, once the server listens.
void announce_flash(const server_http_context &http);

/// Whether `path` is one of the panel's files, which hold no secrets and go without a key.
bool is_flash_file(const std::string &path);

/// `theirs`, the handler of /metrics, with Sluice's own metrics behind what it answers.
server_http_context::handler_t with_flash_metrics(server_http_context::handler_t theirs);

} // namespace sluice::serve
