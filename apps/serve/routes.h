// What Sluice's server answers beside llama.cpp's routes.
#pragma once

#include <string>

namespace sluice::serve {

class HttpContext;

/// Adds Sluice's own routes. Called once for a server, before it listens and before a model is loaded.
/// Handlers run on the server's threads and must not throw. Paths that are is_public() are answered while the
/// model loads as well.
void add_routes(const HttpContext &http);

/// May a GET of `path` go without a key where keys are set? Pages hold no secrets; what they ask for does
/// need one.
bool is_public(const std::string &path);

} // namespace sluice::serve
