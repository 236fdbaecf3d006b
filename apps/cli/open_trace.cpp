#include "open_trace.h"

#include <filesystem>
#include <fmt/format.h>

namespace sluice::cli {

Result<std::unique_ptr<telemetry::RouteTraceWriter>> open_route_trace(const std::string &path,
                                                                      const std::string &model) {
    std::error_code missing; // then it is not the same file
    if (std::filesystem::equivalent(path, model, missing)) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--route-trace {} would be written over the model", path));
    }
    return telemetry::RouteTraceWriter::create(path);
}

} // namespace sluice::cli
