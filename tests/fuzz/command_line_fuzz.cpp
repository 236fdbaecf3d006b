// Arguments of `sluice run`, one a line, and what a plan is asked by them.

#include "fuzz_check.h"
#include "run_flags.h"

#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace sluice;
    std::istringstream lines{std::string(fuzz::text_of(data, size))};
    std::vector<std::string> arguments;
    for (std::string line; std::getline(lines, line);) {
        arguments.insert(arguments.begin(), line); // CLI11 takes a vector from the back
    }
    CLI::App app;
    cli::RunFlags flags;
    cli::add_run_flags(app, flags);
    try {
        app.parse(arguments);
    } catch (const CLI::ParseError &) {
        return 0; // what main() answers with a sentence
    }
    (void)cli::plan_request(flags);
    (void)cli::resolved_flags(app);
    return 0;
}
