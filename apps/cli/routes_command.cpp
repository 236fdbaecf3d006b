// sluice routes: one HTML page that shows which experts a routing trace uses.

#include "command.h"
#include "output.h"
#include "page.h"
#include "pages.h"
#include "route_use.h"
#include "text_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::cli {

namespace {

constexpr size_t kMostBytes = size_t{1} << 30U; // read, not put into the page

struct RoutesFlags {
    std::string trace;
    std::string out;
};

nlohmann::json as_json(const RouteUse &use, const std::string &name) {
    nlohmann::json windows = nlohmann::json::array();
    for (const RouteUse::Window &window : use.windows) {
        windows.push_back({{"tokens", window.tokens},
                           {"mean_slots", window.mean_slots},
                           {"most_slots", window.most_slots},
                           {"ends", window.ends},
                           {"slots", window.slots}});
    }
    return {{"version", SLUICE_VERSION},
            {"name", name},
            {"layers", use.layers},
            {"experts", use.experts},
            {"tokens", use.tokens},
            {"prefill_tokens", use.prefill_tokens},
            {"prefilled_slots", std::count(use.prefilled.begin(), use.prefilled.end(), true)},
            {"uses", use.uses},
            {"repeats", use.repeats},
            {"windows", windows}};
}

Status make_routes(const RoutesFlags &flags) {
    if (Status writable = check_output(flags.out, {flags.trace}); !writable) {
        return writable;
    }
    const auto text = read_text_file(flags.trace, kMostBytes);
    if (!text) {
        return fail(text.error());
    }
    const auto use = count_route_use(*text, flags.trace);
    if (!use) {
        return fail(use.error());
    }
    if (use->tokens == 0) {
        return fail(ErrorCode::InvalidFormat,
                    flags.trace + " has no decoded tokens, so how often experts are used is not known");
    }
    const std::string name = std::filesystem::path(flags.trace).filename().string();
    if (Status written = write_page(flags.out, routes_page(), as_json(*use, name)); !written) {
        return written;
    }
    TextOutput output;
    output.write(flags.out + "\n");
    return output.status();
}

} // namespace

void add_routes_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(
        "routes", "Make an HTML page with a heat map of the experts that a routing trace uses");
    auto flags = std::make_shared<RoutesFlags>();
    command->add_option("TRACE", flags->trace, "A routing trace, as sluice run --route-trace writes it")
        ->required();
    command->add_option("-o,--out", flags->out, "Page to write")->required();
    command->callback([flags, &exit_code] {
        const Status status = make_routes(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
