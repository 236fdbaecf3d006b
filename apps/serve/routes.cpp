#include "routes.h"

#include "flash_files.h"
#include "flash_routes.h"
#include "server_hook.h"

#include "streaming/model/load_source.h"

#include <nlohmann/json.hpp>

#undef server_http_context
#undef server_context

namespace sluice::serve {

namespace {

server_http_res_ptr text(const char *type, std::string body) {
    auto response = std::make_unique<server_http_res>();
    response->content_type = type;
    response->data = std::move(body);
    return response;
}

nlohmann::json stats_of(const streaming::StreamedModel &model) {
    const ExpertStats experts = streaming::expert_stats(model);
    const RowStats rows = streaming::row_stats(model);
    return {{"path", model.options.path},         {"hits", experts.hits},
            {"misses", experts.misses},           {"bytes_read", experts.bytes_read},
            {"cache_bytes", experts.cache_bytes}, {"stall_seconds", experts.stall_seconds},
            {"read_errors", experts.read_errors}, {"rows", rows.rows}};
}

} // namespace

void add_routes(const HttpContext &http) {
    add_flash_routes(http);
#ifndef SLUICE_HAVE_CHAT_PAGE
    http.get("/", [](const server_http_req &) {
        return text("text/plain; charset=utf-8",
                    std::string("This build of Sluice has no chat page (scripts/get-chat-page.sh makes it, "
                                "with npm); all else is there.\n") +
                        (flash::flash_files().empty() ? "" : "What streaming does is shown at /flash.\n"));
    });
#endif
    http.get("/sluice/stats", [](const server_http_req &) {
        nlohmann::json models = nlohmann::json::array();
        for (const auto &model : streaming::LoadSource::instance().models()) {
            models.push_back(stats_of(*model));
        }
        return text("application/json; charset=utf-8",
                    nlohmann::json{{"version", SLUICE_VERSION}, {"streamed_models", models}}.dump());
    });
}

bool is_public(const std::string &path) {
    return is_flash_file(path);
}

} // namespace sluice::serve
