// libggml-sluice.so: streaming in a program of stock llama.cpp's. ggml loads it (GGML_BACKEND_PATH) and asks
// it for its backend; from then on it is as in our own programs.
#include "host_check.h"
#include "reporter.h"
#include "settings.h"

#include "base/notice.h"
#include "streaming/device/streaming_device.h"
#include "streaming/model/load_source.h"

#include "ggml-backend-impl.h"

#include <exception>
#include <string>

namespace sluice::plugin {

namespace {

/// Errors: as check_host(), read_settings() and LoadSource::expect().
Status begin(const void *caller) {
    if (auto checked = check_host(caller); !checked) {
        return checked;
    }
    const auto settings = read_settings();
    if (!settings) {
        return fail(settings.error());
    }
    if (settings->is_off) {
        return fail(ErrorCode::Unsupported, "SLUICE_MOE_STREAM is off");
    }
    // For ever: a program may free its models when it has ended already.
    static auto *reporter = new Reporter(settings->summary);
    streaming::LoadSource &source = streaming::LoadSource::instance();
    source.set_observer(reporter);
    if (!settings->model.path.empty()) {
        return source.expect(settings->model);
    }
    source.take_any(settings->model);
    return {};
}

} // namespace

} // namespace sluice::plugin

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
    using namespace sluice;
    try {
        if (auto begun = plugin::begin(__builtin_return_address(0)); !begun) {
            notice("nothing is streamed: " + begun.error().message);
            return nullptr;
        }
        notice("loaded; models with experts will be streamed");
        return streaming::streaming_registry();
    } catch (const std::exception &) {
        notice("nothing is streamed: out of memory");
        return nullptr;
    }
}
