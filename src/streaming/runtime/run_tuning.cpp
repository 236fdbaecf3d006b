#include "streaming/runtime/run_tuning.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace sluice::streaming {

using storage::ReadEngineKind;
using storage::ReadSetting;

namespace {

/// Looking takes a tenth of a millisecond; a trial begins after RunController::kWarmUp tokens at the
/// earliest.
constexpr size_t kTokensBetweenLooks = RunController::kWarmUp / 2;

} // namespace

RunTuning::RunTuning(StreamedStore *store, storage::SwitchedReadEngine *reads, const TuningOptions &given,
                     int most_threads)
    : store_(store), reads_(reads), given_(given), most_threads_(most_threads), controller_(make_knobs()) {
}

std::vector<Knob> RunTuning::make_knobs() {
    std::vector<Knob> knobs;
    if (most_threads_ > 0) {
        add_thread_knob(knobs);
    }
    if (store_ != nullptr) {
        add_lookahead_knob(knobs);
        add_reading_knob(knobs);
    }
    return knobs;
}

/// One fewer leaves a core to reads and to others; one alone waits for nobody.
void RunTuning::add_thread_knob(std::vector<Knob> &knobs) {
    const int most = most_threads_;
    std::set<int> choices{most, most - 1, most / 2, 1};
    choices.erase(0);
    threads_.assign(choices.rbegin(), choices.rend());
    if (threads_.size() < 2) {
        return;
    }
    Knob knob{.name = "threads", .choices = {}, .needs_waits = true};
    for (const int threads : threads_) {
        knob.choices.push_back(std::to_string(threads));
    }
    thread_knob_ = knobs.size();
    knobs.push_back(std::move(knob));
}

/// Ways to read that no user has decided on, the one that runs first.
std::vector<ReadSetting> RunTuning::readings() const {
    const ReadSetting now = reads_->setting();
    if ((now.kind == ReadEngineKind::Uring ? given_.io_depth : given_.io_threads) > 0) {
        return {};
    }
    std::vector<ReadSetting> ways{now, {now.kind, 2 * now.width}};
    if (now.kind == ReadEngineKind::Threads) {
        ways.push_back({now.kind, now.width / 2});
    } else if (given_.io_engine == IoEngine::Auto) {
        ways.push_back({ReadEngineKind::Threads, kReaderThreads});
    }
    return ways;
}

void RunTuning::add_reading_knob(std::vector<Knob> &knobs) {
    readings_ = readings();
    if (readings_.empty()) {
        return;
    }
    Knob knob{.name = "reading", .choices = {}, .needs_reads = true};
    for (const ReadSetting &reading : readings_) {
        knob.choices.push_back(storage::setting_name(reading));
    }
    reading_knob_ = knobs.size();
    knobs.push_back(std::move(knob));
}

void RunTuning::add_lookahead_knob(std::vector<Knob> &knobs) {
    if (given_.lookahead) {
        return;
    }
    lookahead_knob_ = knobs.size();
    knobs.push_back({.name = "lookahead", .choices = {"on", "off"}, .needs_reads = true});
}

std::optional<size_t> RunTuning::choice(std::optional<size_t> knob, std::span<const size_t> setting) const {
    return knob ? std::optional(setting[*knob]) : std::nullopt;
}

/// For tests: another setting for each batch, all combinations in turn. Knobs in the order they were made in.
std::vector<size_t> RunTuning::restless_setting() const {
    std::vector<size_t> setting;
    size_t number = batches_;
    for (const size_t choices :
         {thread_knob_ ? threads_.size() : 0, lookahead_knob_ ? size_t{2} : 0, readings_.size()}) {
        if (choices > 0) {
            setting.push_back(number % choices);
            number /= choices;
        }
    }
    return setting;
}

int RunTuning::prepare(bool token) {
    const std::span<const size_t> wanted = token ? controller_.setting() : controller_.settled();
    std::vector<size_t> setting(wanted.begin(), wanted.end());
    if (restless_) {
        setting = restless_setting();
    }
    ++batches_;
    if (const auto at = choice(reading_knob_, setting); at && readings_[*at] != reads_->setting()) {
        set_reading(readings_[*at]);
    }
    if (store_ != nullptr) {
        // Of many tokens a layer needs nearly all there is, and nothing is left to guess; nor where all is
        // there.
        const bool guesses = token && (read_last_ || given_.lookahead);
        store_->set_lookahead_experts(guesses ? lookahead(setting) : 0);
    }
    const auto at = choice(thread_knob_, setting);
    return at ? threads_[*at] : most_threads_;
}

uint32_t RunTuning::lookahead(std::span<const size_t> setting) const {
    const auto at = choice(lookahead_knob_, setting);
    return at ? (*at == 0 ? kAsManyAsUsed : 0U) : given_.lookahead.value_or(0);
}

bool RunTuning::looks_ahead() const {
    return lookahead(controller_.settled()) > 0;
}

void RunTuning::set_reading(const ReadSetting &reading) {
    if (auto selected = reads_->select(reading); !selected) {
        store_->say_once(
            fmt::format("{} cannot be tried: {}", storage::setting_name(reading), selected.error().message));
    }
}

void RunTuning::learn(double seconds, bool read) {
    read_last_ = read;
    if (thread_knob_ && tokens_++ % kTokensBetweenLooks == 0) {
        controller_.note_waits(waits_.share());
    }
    controller_.add(seconds, read);
}

} // namespace sluice::streaming
