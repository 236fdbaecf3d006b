#include "session/llama_log.h"

#include "llama.h"

#include <mutex>

namespace sluice::session {

namespace {

thread_local LogScope *current_scope = nullptr;

void on_log(ggml_log_level level, const char *text, void *) {
    // GGML_LOG_LEVEL_CONT goes on with the line before; only errors are followed.
    thread_local bool in_error = false;
    if (level != GGML_LOG_LEVEL_CONT) {
        in_error = level == GGML_LOG_LEVEL_ERROR;
    }
    if (in_error && current_scope != nullptr) {
        current_scope->append(text);
    }
}

} // namespace

void capture_llama_log() {
    // An application may have taken the log back meanwhile.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    ggml_log_callback now = nullptr;
    void *user = nullptr;
    llama_log_get(&now, &user);
    if (now != on_log) {
        llama_log_set(on_log, nullptr);
    }
}

LogScope::LogScope() {
    current_scope = this;
}

LogScope::~LogScope() {
    current_scope = nullptr;
}

std::string LogScope::reason() const {
    std::string line = text_.substr(0, text_.find('\n'));
    // "llama_model_load: error loading model: missing tensor" -> "missing tensor"
    for (const char *prefix : {"error loading model: ", "error loading model hyperparameters: ",
                               "error loading model vocabulary: "}) {
        if (const size_t at = line.find(prefix); at != std::string::npos) {
            return line.substr(at + std::string(prefix).size());
        }
    }
    if (const size_t at = line.find(": "); at != std::string::npos) {
        return line.substr(at + 2);
    }
    return line;
}

} // namespace sluice::session
