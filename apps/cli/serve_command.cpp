#include "server_commands.h"

#include "serve/serve.h"

namespace sluice::cli {

std::optional<int> run_server_command(const std::string &name, const std::vector<std::string> &words) {
    if (name == "serve") {
        return serve::serve(words);
    }
    if (name == "chat") {
        return serve::chat(words);
    }
    return std::nullopt;
}

} // namespace sluice::cli
