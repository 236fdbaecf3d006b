// sluice inspect: what a model consists of and what running it would take, without loading it.

#include "command.h"
#include "output.h"
#include "run_flags.h"

#include "planning/inspect.h"
#include "planning/plan.h"
#include "telemetry/inspect_json.h"
#include "telemetry/inspect_text.h"
#include "telemetry/plan_text.h"

#include <cstdio>
#include <memory>
#include <string>

namespace sluice::cli {

namespace {

struct InspectFlags {
    std::string file;
    bool json = false;
    RunFlags run; ///< what a plan depends on
};

Status inspect(const InspectFlags &flags) {
    PlanRequest request = plan_request(flags.run);
    request.model.path = flags.file;
    // First, as in a run: the plan counts what the process holds already.
    const Result<RunPlan> plan = plan_run(request);
    const Result<ModelInspection> model = inspect_model(request.model);
    if (!model) {
        return fail(model.error());
    }
    TextOutput output;
    if (flags.json) {
        output.write(telemetry::inspection_json(*model, plan, SLUICE_VERSION));
    } else {
        output.write(telemetry::inspection_report(*model));
        output.write(plan ? telemetry::plan_report(*plan) : std::string());
    }
    if (Status written = output.status(); !written) {
        return written;
    }
    if (!plan) {
        return fail(plan.error());
    }
    for (const std::string &warning : plan->warnings) {
        std::fprintf(stderr, "sluice: %s\n", warning.c_str());
    }
    return {};
}

} // namespace

void add_inspect_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand(
        "inspect", "Say what a model consists of and what running it would take, without loading it");
    auto flags = std::make_shared<InspectFlags>();
    command->add_option("FILE", flags->file, "GGUF file, or the first of several shards")->required();
    command->add_flag("--json", flags->json, "Print one JSON object, with every tensor");
    add_plan_flags(*command, flags->run);
    command->callback([flags, &exit_code] {
        const Status status = inspect(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
