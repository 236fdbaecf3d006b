// A file of routing decisions.

#include "fuzz_check.h"
#include "telemetry/route_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice;
    const auto trace = telemetry::parse_route_trace(fuzz::text_of(data, size), "trace");
    if (!trace) {
        return 0;
    }
    for (const telemetry::RouteDecision &decision : trace->decisions) {
        fuzz::require(decision.layer < trace->layers, "layers are in range");
        fuzz::require(!decision.tokens.empty(), "a decision is about some token");
        for (const std::vector<uint32_t> &token : decision.tokens) {
            fuzz::require(!token.empty(), "a token has experts");
            for (const uint32_t expert : token) {
                fuzz::require(expert < trace->experts, "experts are in range");
            }
        }
    }
    return 0;
}
