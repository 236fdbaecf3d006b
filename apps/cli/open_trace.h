// The file behind --route-trace.
#pragma once

#include "base/error.h"
#include "telemetry/route_trace.h"

#include <memory>
#include <string>

namespace sluice::cli {

/// Creates the trace, unless it would be written over the model. Errors: InvalidArgument, and as
/// RouteTraceWriter::create().
Result<std::unique_ptr<telemetry::RouteTraceWriter>> open_route_trace(const std::string &path,
                                                                      const std::string &model);

} // namespace sluice::cli
