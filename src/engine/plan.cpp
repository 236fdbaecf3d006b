#include "sluice/plan.h"

#include "engine/dense_weights.h"
#include "engine/llama_log.h"
#include "engine/memory_needs.h"
#include "engine/run_planner.h"
#include "model/gguf_directory.h"
#include "storage/device_probe.h"
#include "storage/memory_facts.h"
#include "storage/reserved_memory.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

/// What a probe of the model's device found best for slices, if one was made.
std::optional<engine::ReadingFact> probed_reading(const std::string &path) {
    constexpr int kMostLanes = 64;
    const auto probe = storage::load_probe(path);
    if (!probe || !probe->slices) {
        return std::nullopt;
    }
    const bool uring = probe->slices->engine == storage::ReadEngineKind::Uring;
    return engine::ReadingFact{.engine = uring ? IoEngine::Uring : IoEngine::Threads,
                               .width = std::min(probe->slices->width, kMostLanes)};
}

} // namespace

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
        const engine::PlanFacts facts{.has_experts =
                                          (*directory)->header_integer("{arch}.expert_count").value_or(0) > 0,
                                      .usable_memory = storage::usable_memory(storage::read_memory_facts()),
                                      .held_now = storage::read_process_memory().resident.value_or(0),
                                      .cores = storage::physical_cores(),
                                      .reading = probed_reading(request.model.path)};
        auto plan = engine::decide(
            request, facts,
            [&directory](const ModelOptions &model, const SessionOptions &session, bool streaming) {
                return engine::measure_needs(model, session, streaming, **directory);
            });
        // What was tried out on paper left tens of MiB of free heap, of which a run may use another part.
        storage::trim_heap();
        return plan;
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, "out of memory while planning");
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot plan the run: {}", error.what()));
    }
}

} // namespace sluice
