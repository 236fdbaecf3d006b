#include "sluice/plan.h"

#include "engine/dense_weights.h"
#include "engine/llama_log.h"
#include "engine/memory_needs.h"
#include "engine/planner.h"
#include "engine/run_planner.h"
#include "model/gguf_directory.h"
#include "platform/compute_runtime.h"
#include "storage/memory_facts.h"
#include "storage/reserved_memory.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

Result<RunPlan> plan_run(const PlanRequest &request) {
    engine::capture_llama_log();
    if (auto possible = engine::check_dense_weights(request.model.dense_weights); !possible) {
        return fail(possible.error());
    }
    try {
        auto directory =
            model::GgufDirectory::open(request.model.path, request.model.direct, storage::system_files());
        if (!directory) {
            return fail(directory.error());
        }
        const storage::MemoryFacts memory = storage::read_memory_facts();
        const engine::PlanFacts facts{.has_experts =
                                          (*directory)->header_integer("{arch}.expert_count").value_or(0) > 0,
                                      .usable_memory = storage::usable_memory(memory),
                                      .held_now = storage::read_process_memory().resident.value_or(0),
                                      .group_limit = engine::bounding_group_limit(memory),
                                      .processors = platform::read_processors()};
        auto plan = engine::decide(
            request, facts,
            [&directory](const ModelOptions &model, const SessionOptions &session, bool streaming) {
                return engine::measure_needs(model, session, streaming, **directory);
            });
        // What was tried out on paper left tens of MiB of free heap, of which a run may use another part.
        storage::trim_heap();
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

} // namespace sluice
