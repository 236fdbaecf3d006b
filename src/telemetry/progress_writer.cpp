#include "telemetry/progress_writer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace sluice::telemetry {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1; ///< of the format; members may be added to it

Json event(const char *name) {
    return {{"v", kVersion}, {"event", name}};
}

/// Milliseconds to a tenth of a microsecond: more digits would be noise.
double milliseconds(double seconds) {
    return static_cast<double>(static_cast<int64_t>(seconds * 1e7 + (seconds < 0 ? -0.5 : 0.5))) / 1e4;
}

template <typename Work>
void put(Json &json, const Work &work) {
    json["wall_ms"] = milliseconds(work.time.wall);
    json["compute_ms"] = milliseconds(work.time.compute);
    json["expert_wait_ms"] = milliseconds(work.time.expert_wait);
    json["row_wait_ms"] = milliseconds(work.time.row_wait);
    json["cache_ms"] = milliseconds(work.time.cache);
    json["sampling_ms"] = milliseconds(work.time.between);
    json["other_ms"] = milliseconds(work.time.other());
    json["read_bytes"] = work.read_bytes;
    json["hits"] = work.hits;
    json["misses"] = work.misses;
}

void write(LineFile &file, const Json &json) {
    file.add(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
    file.flush();
}

const char *name_of(StopReason reason) {
    switch (reason) {
    case StopReason::EndOfText:
        return "end_of_text";
    case StopReason::TokenLimit:
        return "token_limit";
    case StopReason::ContextFull:
        return "context_full";
    case StopReason::Cancelled:
        break;
    }
    return "interrupted";
}

const char *name_of(ErrorCode code) {
    switch (code) {
    case ErrorCode::InvalidArgument:
        return "invalid_argument";
    case ErrorCode::NotFound:
        return "not_found";
    case ErrorCode::PermissionDenied:
        return "permission_denied";
    case ErrorCode::InvalidFormat:
        return "invalid_format";
    case ErrorCode::Io:
        return "io";
    case ErrorCode::OutOfMemory:
        return "out_of_memory";
    case ErrorCode::Unsupported:
        return "unsupported";
    case ErrorCode::Cancelled:
        return "interrupted";
    case ErrorCode::Internal:
        break;
    }
    return "internal";
}

} // namespace

void ProgressWriter::Work::add(const TokenSample &sample) {
    ++batches;
    time += sample.time;
    read_bytes += sample.expert_read_bytes + sample.speculative_read_bytes + sample.row_read_bytes;
    hits += sample.hits;
    misses += sample.misses;
}

Result<std::unique_ptr<ProgressWriter>> ProgressWriter::create(const std::string &where) {
    int number = -1;
    const char *end = where.data() + where.size();
    const auto [parsed, error] = std::from_chars(where.data(), end, number);
    const bool is_number = parsed == end && error == std::errc() && number >= 0;
    if (is_number && number < 2) {
        return fail(ErrorCode::InvalidArgument,
                    "--progress needs a stream of its own: 0 and 1 are standard input and output");
    }
    auto file = is_number ? LineFile::on_descriptor(number) : LineFile::create(where);
    if (!file) {
        return fail(file.error().with_context("--progress"));
    }
    return std::unique_ptr<ProgressWriter>(new ProgressWriter(std::move(*file)));
}

void ProgressWriter::load(double fraction) {
    const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
    if (percent == percent_) {
        return;
    }
    percent_ = percent;
    Json json = event("load");
    json["fraction"] = percent / 100.0;
    write(*file_, json);
}

void ProgressWriter::loaded(const ModelInfo &model) {
    Json json = event("load");
    json["fraction"] = 1.0;
    json["seconds"] = model.load_seconds;
    json["model"] = model.path;
    json["mode"] = model.streaming ? "streaming" : "resident";
    write(*file_, json);
}

void ProgressWriter::begin_answer(size_t prompt_tokens) {
    prompt_tokens_ = prompt_tokens;
    prompt_done_ = 0;
    since_text_ = {};
    answer_ = {};
    index_ = 0;
}

void ProgressWriter::computed(const TokenSample &sample) {
    answer_.add(sample);
    if (sample.phase == Phase::Decode) {
        since_text_.add(sample);
        return;
    }
    prompt_done_ += sample.batch_tokens;
    Work batch;
    batch.add(sample);
    Json json = event("prefill");
    json["tokens"] = prompt_done_;
    json["of"] = prompt_tokens_;
    put(json, batch);
    write(*file_, json);
}

void ProgressWriter::text(std::string_view piece) {
    index_ += since_text_.batches;
    Json json = event("token");
    json["index"] = index_;
    json["text"] = piece;
    put(json, since_text_);
    write(*file_, json);
    since_text_ = {};
}

void ProgressWriter::done(StopReason reason) {
    Json json = event("done");
    json["reason"] = name_of(reason);
    json["prompt_tokens"] = prompt_done_;
    json["computed_tokens"] = index_ + since_text_.batches;
    put(json, answer_);
    write(*file_, json);
}

void ProgressWriter::error(const Error &error) {
    Json json = event("error");
    json["code"] = name_of(error.code);
    json["message"] = error.message;
    write(*file_, json);
}

} // namespace sluice::telemetry
