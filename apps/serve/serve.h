// `sluice serve` and `sluice chat`: llama.cpp's server and its client, streamed.
#pragma once

#include <string>
#include <vector>

namespace sluice::serve {

/// Runs the server with the words behind "serve"; returns the exit code.
int serve(const std::vector<std::string> &words);

/// Runs the client with the words behind "chat"; returns the exit code.
int chat(const std::vector<std::string> &words);

} // namespace sluice::serve
