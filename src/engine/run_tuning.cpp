#include "engine/run_tuning.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <set>

namespace sluice::engine {

using storage::ReadEngineKind;
using storage::ReadSetting;

namespace {

bool claim(ModelState &model, const void *who) {
    const void *nobody = nullptr;
    return model.tuned_by.compare_exchange_strong(nobody, who);
}

} // namespace

RunTuning::RunTuning(ModelState &model, const SessionOptions &options)
    : model_(model), options_(options), owns_reading_(claim(model, this)), controller_(make_knobs()) {
}

RunTuning::~RunTuning() {
    if (owns_reading_) {
        model_.tuned_by.store(nullptr);
    }
}

std::vector<Knob> RunTuning::make_knobs() {
    std::vector<Knob> knobs;
    if (options_.try_fewer_threads) {
        add_thread_knob(knobs);
    }
    if (model_.store != nullptr && owns_reading_) {
        add_lookahead_knob(knobs);
        add_reading_knob(knobs);
    }
    return knobs;
}

/// One fewer leaves a core to reads and to others; one alone waits for nobody.
void RunTuning::add_thread_knob(std::vector<Knob> &knobs) {
    const int most = options_.threads;
    std::set<int> choices{most, most - 1, most / 2, 1};
    choices.erase(0);
    threads_.assign(choices.rbegin(), choices.rend());
    if (threads_.size() < 2) {
        return;
    }
    Knob knob{.name = "threads", .choices = {}};
    for (const int threads : threads_) {
        knob.choices.push_back(std::to_string(threads));
    }
    thread_knob_ = knobs.size();
    knobs.push_back(std::move(knob));
}

/// Ways to read that no user has decided on, the one that runs first.
std::vector<ReadSetting> RunTuning::readings() const {
    const ModelOptions &given = model_.options;
    const ReadSetting now = model_.reads->setting();
    if ((now.kind == ReadEngineKind::Uring ? given.io_depth : given.io_threads) > 0) {
        return {};
    }
    std::vector<ReadSetting> ways{now, {now.kind, 2 * now.width}};
    if (now.kind == ReadEngineKind::Threads) {
        ways.push_back({now.kind, now.width / 2});
    } else if (given.io_engine == IoEngine::Auto) {
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
    if (model_.options.lookahead) {
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

void RunTuning::prepare(llama_context &context, size_t tokens) {
    const std::span<const size_t> wanted = tokens == 1 ? controller_.setting() : controller_.settled();
    std::vector<size_t> setting(wanted.begin(), wanted.end());
    if (options_.restless) {
        setting = restless_setting();
    }
    ++batches_;
    if (const auto at = choice(thread_knob_, setting); at && threads_[*at] != threads_now_) {
        threads_now_ = threads_[*at];
        llama_set_n_threads(&context, threads_now_, threads_now_);
    }
    if (const auto at = choice(reading_knob_, setting); at && readings_[*at] != model_.reads->setting()) {
        set_reading(readings_[*at]);
    }
    if (model_.store == nullptr) {
        return;
    }
    if (owns_reading_) {
        const auto at = choice(lookahead_knob_, setting);
        model_.lookahead =
            at ? (*at == 0 ? backend::kAsManyAsUsed : 0U) : model_.options.lookahead.value_or(0);
    }
    // Of many tokens a layer needs nearly all there is, and nothing is left to guess; nor where all is there.
    const bool guesses = tokens == 1 && (read_last_ || model_.options.lookahead);
    model_.store->set_lookahead_experts(guesses ? model_.lookahead.load() : 0);
}

void RunTuning::set_reading(const ReadSetting &reading) {
    if (auto selected = model_.reads->select(reading); !selected) {
        model_.store->say_once(
            fmt::format("{} cannot be tried: {}", storage::setting_name(reading), selected.error().message));
    }
}

void RunTuning::learn(double seconds, bool read) {
    read_last_ = read;
    controller_.add(seconds, read);
}

} // namespace sluice::engine
