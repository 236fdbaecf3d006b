#include "settings.h"

#include "options/option_table.h"
#include "planning/plan.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace sluice::plugin {

namespace {

constexpr const char *kModel = "SLUICE_MODEL";
constexpr const char *kSummary = "SLUICE_SUMMARY";

/// Why `request` is not for a plug-in, which neither plans nor loads; empty if it is.
std::string not_for_a_plugin(const PlanRequest &request) {
    if (request.ram_bytes) {
        return "SLUICE_RAM_MB needs a plan of the whole process, which only Sluice's own programs make: set "
               "SLUICE_CACHE_MB";
    }
    if (request.model.dense_weights != DenseWeights::Anon) {
        return "SLUICE_DENSE_WEIGHTS is for Sluice's own loader: here the program's --load-mode says how "
               "weights "
               "are held";
    }
    if (request.model.lossy.n_expert_used > 0) {
        return "SLUICE_N_EXPERT_USED is for Sluice's own loader: here it is the program's --override-kv that "
               "says "
               "how many";
    }
    return {};
}

} // namespace

Result<Settings> read_settings() {
    PlanRequest request;
    const std::string_view others[] = {kModel, kSummary};
    if (auto read = options::read_environment(request, others); !read) {
        return fail(read.error());
    }
    if (std::string why = not_for_a_plugin(request); !why.empty()) {
        return fail(ErrorCode::InvalidArgument, std::move(why));
    }
    Settings settings{.model = request.model};
    settings.is_off = request.model.stream == StreamMode::Never;
    if (const char *path = std::getenv(kModel)) {
        settings.model.path = path;
    }
    if (const char *text = std::getenv(kSummary)) {
        const std::string_view value = text;
        if (value != "0" && value != "1") {
            return fail(ErrorCode::InvalidArgument, std::string(kSummary) + ": '" + text + "' is not 0 or 1");
        }
        settings.summary = value == "1";
    }
    return settings;
}

} // namespace sluice::plugin
