// Hours in minutes: a streamed model answers random prompts while it is cancelled, its cache is resized, its
// contexts and itself are made anew, others take memory and processors. Every answer is compared with that of
// the same model in memory. Prints one JSON object: what was done, mismatches, and how resident memory and
// open descriptors drift. Exits with 1 if an answer differed, a call failed, or descriptors were left open.
//
//   soak MODEL [SECONDS [SEED]]

#include "session/model.h"
#include "session/model_state.h"
#include "session/session.h"
#include "soak_neighbours.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kCacheBytes = uint64_t{16} << 20U;

size_t open_descriptors() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

struct Totals {
    uint64_t answers = 0;
    uint64_t tokens = 0;
    uint64_t cancelled = 0;
    uint64_t resizes = 0;
    uint64_t contexts = 0;
    uint64_t loads = 0;
    uint64_t memory_taken = 0;
    uint64_t processor_taken = 0;
    uint64_t mismatches = 0;
    uint64_t failures = 0;
};

/// What a process that was left alone for a moment holds, seconds after the start.
struct Sample {
    double seconds = 0;
    uint64_t resident = 0;
    size_t descriptors = 0;
};

class Soak {
public:
    Soak(std::string path, uint32_t seed) : path_(std::move(path)), random_(seed) {}

    bool begin() {
        auto resident = Model::load({.path = path_, .stream = StreamMode::Never, .repack = false});
        if (!resident) {
            return failed(resident.error());
        }
        resident_ = std::make_unique<Model>(std::move(*resident));
        return load();
    }

    /// One answer among disturbances. False: it can't go on.
    bool round() {
        disturb();
        if (one_in(40) ? !load() : one_in(8) && !make_sessions()) {
            return false;
        }
        answer();
        return true;
    }

    void take_sample(double seconds) {
        samples_.push_back({seconds, resident_set_bytes(), open_descriptors()});
    }

    /// After the first third, in which arenas, pools and the cache fill.
    [[nodiscard]] nlohmann::json report() const {
        const size_t warm = samples_.size() / 3;
        nlohmann::json result{
            {"answers", totals_.answers},           {"tokens", totals_.tokens},
            {"cancelled", totals_.cancelled},       {"resizes", totals_.resizes},
            {"contexts", totals_.contexts},         {"loads", totals_.loads},
            {"memory_taken", totals_.memory_taken}, {"processor_taken", totals_.processor_taken},
            {"mismatches", totals_.mismatches},     {"failures", totals_.failures}};
        if (samples_.size() > warm + 1) {
            result["resident_mib_warm"] = mebibytes(samples_[warm].resident);
            result["resident_mib_end"] = mebibytes(samples_.back().resident);
            result["resident_mib_per_hour"] = mebibytes_per_hour(warm);
            result["descriptors_warm"] = samples_[warm].descriptors;
            result["descriptors_end"] = samples_.back().descriptors;
        }
        return result;
    }

    [[nodiscard]] bool sound() const {
        return totals_.mismatches == 0 && totals_.failures == 0 && totals_.answers > 0 &&
               samples_.back().descriptors <= samples_[samples_.size() / 3].descriptors + kDescriptorsInUse;
    }

private:
    static constexpr size_t kDescriptorsInUse =
        4; // of a model that is loaded or not yet gone when a sample is taken

    static double mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

    /// The slope of a line through the samples from `warm` on.
    [[nodiscard]] double mebibytes_per_hour(size_t warm) const {
        double time = 0;
        double memory = 0;
        const auto count = static_cast<double>(samples_.size() - warm);
        for (size_t i = warm; i < samples_.size(); ++i) {
            time += samples_[i].seconds / count;
            memory += mebibytes(samples_[i].resident) / count;
        }
        double both = 0;
        double alone = 0;
        for (size_t i = warm; i < samples_.size(); ++i) {
            both += (samples_[i].seconds - time) * (mebibytes(samples_[i].resident) - memory);
            alone += (samples_[i].seconds - time) * (samples_[i].seconds - time);
        }
        return alone > 0 ? both / alone * 3600 : 0;
    }

    bool one_in(uint32_t many) { return random_() % many == 0; }
    uint32_t between(uint32_t least, uint32_t most) {
        return least + static_cast<uint32_t>(random_() % (most - least + 1));
    }

    bool failed(const Error &error) {
        std::fprintf(stderr, "soak: %s\n", error.message.c_str());
        ++totals_.failures;
        return false;
    }

    bool load() {
        session_.reset();
        streamed_.reset();
        ++totals_.loads;
        auto model = Model::load({.path = path_,
                                  .stream = StreamMode::Force,
                                  .cache_bytes = kCacheBytes,
                                  .row_stream = one_in(2),
                                  .row_window_bytes = uint64_t{1} << 20U,
                                  .repack = false});
        if (!model) {
            return failed(model.error());
        }
        streamed_ = std::make_unique<Model>(std::move(*model));
        return make_sessions();
    }

    /// One for each model. The size of a ubatch may show in the bytes, so both have the same.
    bool make_sessions() {
        const uint32_t ubatch = between(1, 64);
        return make_session(*resident_, ubatch, resident_session_) &&
               make_session(*streamed_, ubatch, session_);
    }

    bool make_session(Model &model, uint32_t ubatch, std::optional<Session> &session) {
        session.reset();
        ++totals_.contexts;
        auto made = Session::create(model, {.context_tokens = 512, .ubatch_tokens = ubatch, .threads = 2});
        if (!made) {
            return failed(made.error());
        }
        session.emplace(std::move(*made));
        return true;
    }

    void disturb() {
        if (one_in(2)) {
            auto &runtime = *streamed_->state().streamed->runtime;
            const uint64_t least = session_->stats().experts.cache_minimum_bytes;
            ++totals_.resizes;
            if (one_in(4)) {
                runtime.trim();
            } else if (const Status set = runtime.limit_cache(least + random_() % kCacheBytes); !set) {
                failed(set.error());
            }
        }
        if (one_in(10)) {
            ++totals_.memory_taken;
            neighbours_.take_memory(uint64_t{between(64, 1024)} << 20U);
        }
        if (one_in(10)) {
            ++totals_.processor_taken;
            neighbours_.take_processors(between(1, 4));
        }
        if (one_in(4)) {
            neighbours_.leave();
        }
    }

    static Result<StopReason> generate(Session &session, const std::vector<Token> &prompt, int count,
                                       std::string &text) {
        session.reset();
        return session.generate(prompt, count, {.temperature = 0},
                                [&text](std::string_view piece) { text += piece; });
    }

    /// An answer that was cancelled is the beginning of the other.
    void answer() {
        std::vector<Token> prompt(between(1, 150));
        for (Token &token : prompt) {
            token = static_cast<Token>(random_() % session_->vocab_size());
        }
        const int count = static_cast<int>(between(1, 48));
        std::string expected;
        std::string text;
        const auto right = generate(*resident_session_, prompt, count, expected);
        std::thread canceller;
        if (one_in(3)) {
            canceller = std::thread([this, wait = std::chrono::microseconds(between(0, 400'000))] {
                std::this_thread::sleep_for(wait);
                session_->cancel();
            });
        }
        const auto streamed = generate(*session_, prompt, count, text);
        if (canceller.joinable()) {
            canceller.join();
        }
        ++totals_.answers;
        totals_.tokens += prompt.size() + static_cast<size_t>(count);
        if (!right) {
            failed(right.error());
            return;
        }
        const bool stopped =
            streamed ? *streamed == StopReason::Cancelled : streamed.error().code == ErrorCode::Cancelled;
        if (!streamed && !stopped) {
            failed(streamed.error());
            return;
        }
        totals_.cancelled += stopped ? 1 : 0;
        if (stopped ? !expected.starts_with(text) : expected != text) {
            ++totals_.mismatches;
            std::fprintf(stderr, "soak: answer %llu differs\n  in memory: %s\n  streamed:  %s\n",
                         static_cast<unsigned long long>(totals_.answers), expected.c_str(), text.c_str());
        }
    }

    const std::string path_;
    std::mt19937 random_;
    Neighbours neighbours_;
    std::unique_ptr<Model> resident_;
    std::unique_ptr<Model> streamed_;
    std::optional<Session> resident_session_; // after the models: destroyed before them
    std::optional<Session> session_;
    Totals totals_;
    std::vector<Sample> samples_;
};

} // namespace
} // namespace sluice::bench

int main(int argc, char **argv) {
    using namespace sluice::bench;
    if (argc < 2 || argc > 4) {
        std::fprintf(stderr, "usage: soak MODEL [SECONDS [SEED]]\n");
        return 2;
    }
    const double seconds = argc > 2 ? std::strtod(argv[2], nullptr) : 600;
    const auto seed = static_cast<uint32_t>(argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 1);
    Soak soak(argv[1], seed);
    if (!soak.begin()) {
        return 1;
    }
    const auto begun = Clock::now();
    double next_sample = 0;
    for (double now = 0; now < seconds; now = std::chrono::duration<double>(Clock::now() - begun).count()) {
        if (now >= next_sample) {
            soak.take_sample(now);
            next_sample = now + seconds / 60;
        }
        if (!soak.round()) {
            return 1;
        }
    }
    soak.take_sample(seconds);
    nlohmann::json result = soak.report();
    result["seconds"] = seconds;
    result["seed"] = seed;
    std::printf("%s\n", result.dump().c_str());
    return soak.sound() ? 0 : 1;
}
