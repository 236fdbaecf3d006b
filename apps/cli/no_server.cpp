// In the place of llama.cpp's server, in builds without it.

#include "command.h"
#include "server_commands.h"

namespace sluice::cli {

std::optional<int> run_server_command(const std::string &name, const std::vector<std::string> & /*words*/) {
    if (name != "serve" && name != "chat") {
        return std::nullopt;
    }
    return report({ErrorCode::Unsupported,
                   "this build has no server: configure with -DSLUICE_SERVER=ON for serve and chat"});
}

} // namespace sluice::cli
