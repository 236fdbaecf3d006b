#include "base/notice.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace sluice {

namespace {

// What is below llama.cpp is called without an argument that could say who listens.
std::mutex mutex;
NoticeSink &sink() {
    static NoticeSink instance;
    return instance;
}

} // namespace

void set_notice_sink(NoticeSink listener) {
    const std::lock_guard lock(mutex);
    sink() = std::move(listener);
}

void notice(std::string_view sentence) noexcept {
    const std::lock_guard lock(mutex);
    if (sink()) {
        sink()(sentence);
    } else {
        std::fprintf(stderr, "sluice: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
    }
}

} // namespace sluice
