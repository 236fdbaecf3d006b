// Values of the option table, as a program or the environment gives them: lines of NAME=VALUE.

#include "fuzz_check.h"
#include "options/option_table.h"

#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice;
    std::istringstream lines{std::string(fuzz::text_of(data, size))};
    PlanRequest request;
    for (std::string line; std::getline(lines, line);) {
        const size_t equals = line.find('=');
        if (equals == std::string::npos) {
            continue;
        }
        const std::string name = line.substr(0, equals);
        if (const Status set = options::set_stream_option(request, name, line.substr(equals + 1)); !set) {
            fuzz::require(set.error().code == ErrorCode::InvalidArgument,
                          "a value that is refused is an argument");
            fuzz::require(set.error().message.find(name) != std::string::npos, "a refusal names the option");
        }
    }
    return 0;
}
