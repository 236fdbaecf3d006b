#include "flash_routes.h"

#include "flash_api.h"
#include "flash_files.h"
#include "streamed_models.h"
#include "streaming/model/load_source.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <memory>
#include <utility>

namespace sluice::serve {

namespace {

/// Each takes a thread of the server's.
constexpr int kMostStreams = 16;

/// What the routes share. It goes with the last handler.
struct Panel {
    explicit Panel(flash::StartFacts facts) : api(models, std::move(facts)) {}

    flash::StreamedModels models{[] { return streaming::LoadSource::instance().models(); }};
    flash::FlashApi api;
    std::atomic<int> streams{0};
};

/// Who reads events; one less when it is gone.
class Stream {
public:
    explicit Stream(std::shared_ptr<Panel> panel) : panel_(std::move(panel)) { ++panel_->streams; }
    ~Stream() { --panel_->streams; }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    bool next(std::string &chunk) {
        auto event = panel_->api.next_event(seen_);
        if (event) {
            chunk = std::move(*event);
        }
        return event.has_value();
    }

private:
    const std::shared_ptr<Panel> panel_;
    uint64_t seen_ = 0;
};

// Set up once, before the server listens.
flash::StartFacts start_facts;
std::string path_prefix;
std::weak_ptr<Panel> panel_now;

server_http_res_ptr response_of(flash::FlashReply reply) {
    auto response = std::make_unique<server_http_res>();
    response->status = reply.status;
    response->content_type = std::move(reply.content_type);
    response->data = std::move(reply.body);
    response->headers["Cache-Control"] = "no-store";
    return response;
}

/// Names of headers come as the client wrote them.
flash::FlashRequest request_of(const server_http_req &request) {
    flash::FlashRequest asked{.body = request.body, .headers = {}};
    for (const auto &[name, value] : request.headers) {
        std::string small = name;
        std::transform(small.begin(), small.end(), small.begin(),
                       [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
        asked.headers[small] = value;
    }
    return asked;
}

server_http_res_ptr stream_events(const std::shared_ptr<Panel> &panel,
                                  const std::function<bool()> &should_stop) {
    if (panel->streams >= kMostStreams) {
        return response_of(
            {.status = 503,
             .body = R"({"error":{"code":503,"message":"too many read the panel's events already",)"
                     R"("type":"unavailable_error"}})"});
    }
    auto response = response_of({.body = {}, .content_type = "text/event-stream"});
    response->next = [stream = std::make_shared<Stream>(panel), &should_stop](std::string &chunk) {
        return !should_stop() && stream->next(chunk);
    };
    return response;
}

std::string path_of(const flash::FlashFile &file) {
    return std::string("/").append(file.name);
}

server_http_res_ptr file_response(const flash::FlashFile &file) {
    auto response = response_of({.body = std::string(reinterpret_cast<const char *>(file.data), file.size),
                                 .content_type = file.content_type});
    response->headers["Cache-Control"] = "no-cache"; // its name stays when its contents change
    response->headers["X-Content-Type-Options"] = "nosniff";
    return response;
}

} // namespace

void set_flash_facts(flash::StartFacts facts) {
    start_facts = std::move(facts);
}

void add_flash_routes(const server_http_context &http) {
    path_prefix = http.path_prefix;
    const auto panel = std::make_shared<Panel>(start_facts);
    panel_now = panel;
    for (const flash::FlashFile &file : flash::flash_files()) {
        http.get(path_of(file), [&file](const server_http_req &) { return file_response(file); });
    }
    http.get("/flash/state", [panel](const server_http_req &) { return response_of(panel->api.state()); });
    http.get("/flash/events",
             [panel](const server_http_req &request) { return stream_events(panel, request.should_stop); });
    http.post("/flash/settings", [panel](const server_http_req &request) {
        return response_of(panel->api.change(request_of(request)));
    });
    http.post("/flash/trim", [panel](const server_http_req &request) {
        return response_of(panel->api.trim(request_of(request)));
    });
}

void announce_flash(const server_http_context &http) {
    if (!flash::flash_files().empty() && !http.listening_addresses.empty()) {
        std::fprintf(stderr, "sluice: what streaming does is shown at %s%s/flash\n",
                     http.listening_addresses.front().c_str(), http.path_prefix.c_str());
    }
}

bool is_flash_file(const std::string &path) {
    const auto files = flash::flash_files();
    return std::any_of(files.begin(), files.end(),
                       [&path](const flash::FlashFile &file) { return path == path_prefix + path_of(file); });
}

server_http_context::handler_t with_flash_metrics(server_http_context::handler_t theirs) {
    return [theirs = std::move(theirs)](const server_http_req &request) {
        auto response = theirs(request);
        const auto panel = panel_now.lock();
        if (panel != nullptr && response != nullptr && response->status == 200 && !response->is_stream()) {
            response->data += panel->api.metrics();
        }
        return response;
    };
}

} // namespace sluice::serve
