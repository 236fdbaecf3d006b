#include "routes.h"

#include "server_hook.h"

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

} // namespace

void add_routes(const HttpContext &http) {
#ifndef SLUICE_HAVE_CHAT_PAGE
    http.get("/", [](const server_http_req &) {
        return text("text/plain; charset=utf-8",
                    "This build of Sluice has no chat page (scripts/get-chat-page.sh makes it, "
                    "with npm); all else is there.\n");
    });
#endif
    http.get("/sluice/version", [](const server_http_req &) {
        return text("application/json; charset=utf-8", R"({"version": ")" SLUICE_VERSION "\"}\n");
    });
}

bool is_public(const std::string &path) {
    return path == "/sluice/version";
}

} // namespace sluice::serve
