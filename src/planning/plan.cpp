#include "planning/plan.h"

#include "gguf/gguf_directory.h"
#include "planning/host_plan.h"
#include "planning/memory_needs.h"
#include "planning/run_planner.h"
#include "platform/compute_runtime.h"
#include "platform/memory_facts.h"
#include "platform/reserved_memory.h"
#include "session/dense_weights.h"
#include "session/llama_log.h"
#include "session/planner.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace planning {

Result<RunPlan> plan_host(const PlanRequest &request, const HostNeeds &host) {
    session::capture_llama_log();
    if (auto possible = session::check_dense_weights(request.model.dense_weights); !possible) {
        return fail(possible.error());
    }
    try {
        auto directory =
            gguf::GgufDirectory::open(request.model.path, request.model.direct, platform::system_files());
        if (!directory) {
            return fail(directory.error());
        }
        const platform::MemoryFacts memory = platform::read_memory_facts();
        const PlanFacts facts{.has_experts =
                                  (*directory)->header_integer("{arch}.expert_count").value_or(0) > 0,
                              .usable_memory = platform::usable_memory(memory),
                              .held_now = platform::read_process_memory().resident.value_or(0),
                              .group_limit = session::bounding_group_limit(memory),
                              .processors = platform::read_processors(),
                              .beside = host.beside};
        auto plan = decide(
            request, facts, [&](const ModelOptions &model, const SessionOptions &session, bool streaming) {
                auto needs = measure_needs(model, session, streaming, **directory, host.params_of);
                if (needs) {
                    for (const PlanItem &item : host.beside) {
                        needs->beside_bytes += item.bytes;
                    }
                }
                return needs;
            });
        // What was tried out on paper left tens of MiB of free heap, of which a run may use another part.
        platform::trim_heap();
        if (plan) {
            for (std::string &remark : platform::runtime_remarks()) {
                plan->warnings.push_back(std::move(remark));
            }
        }
        return plan;
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, "out of memory while planning");
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot plan the run: {}", error.what()));
    }
}

} // namespace planning

Result<RunPlan> plan_run(const PlanRequest &request) {
    return planning::plan_host(request, {});
}

} // namespace sluice
