// What a run measures, it decides: settings that change only speed are tried on some tokens, and what is
// surely quicker is kept.
#pragma once

#include "base/stats.h"
#include "streaming/runtime/paired_trial.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::streaming {

/// One thing that can be set, and what to. Never one that the user has decided.
struct Knob {
    std::string name;                 ///< for people, such as "lookahead"
    std::vector<std::string> choices; ///< for people, such as "on"
    size_t start = 0;                 ///< the choice to begin with
    bool needs_reads = false;         ///< means nothing to tokens that read nothing
    bool needs_waits = false; ///< means nothing while no thread of the run has to wait for a processor
};

/// Tries one choice of one knob at a time against what is settled (PairedTrial). When all have been tried it
/// lets the run alone, for longer each time that nothing changed, and begins again early when tokens take
/// clearly longer or shorter than when it settled: then what was found is no longer known. Pure arithmetic on
/// token times; not thread-safe.
class RunController {
public:
    explicit RunController(std::vector<Knob> knobs);

    /// The choice of each knob for the next token. Valid until add().
    [[nodiscard]] std::span<const size_t> setting() const { return setting_; }

    /// The choice of each knob that is kept, whatever is being tried.
    [[nodiscard]] std::span<const size_t> settled() const { return settled_; }

    /// The token that setting() was asked for took so many seconds, and it `read` or did not.
    void add(double seconds, bool read);

    /// How much of a core's time the run's threads, added up, waited for a core lately; empty: unknown. Asked
    /// for from time to time.
    void note_waits(std::optional<double> share) { waits_ = share; }

    /// One for each knob, in order.
    [[nodiscard]] std::vector<SettledSetting> outcome() const;

    /// Tokens that were part of a trial.
    [[nodiscard]] size_t tokens_tried() const { return tokens_tried_; }
    /// How often tokens took so much longer or shorter than before that all was tried anew.
    [[nodiscard]] size_t changes_noticed() const { return changes_noticed_; }

    /// Tokens before the first trial: caches and page tables fill.
    static constexpr size_t kWarmUp = 8;
    /// Tokens left alone after the first round of trials, and at most.
    static constexpr size_t kRest = 256;
    static constexpr size_t kLongestRest = 4096;
    /// Waiting that counts, as note_waits() has it.
    static constexpr double kWaits = 0.1;
    /// Tokens that make up "now" when it is compared with "then".
    static constexpr size_t kWindow = 16;

private:
    struct Candidate {
        size_t knob = 0;
        size_t choice = 0;
    };
    /// What is known of a choice that is not kept: a gain against what is, or that it was given up early.
    struct Finding {
        std::optional<double> gain = {};
        size_t given_up_after = 0; ///< tokens; 0: it was not
    };

    void go_on_with_trial(double seconds);
    void forget_times();
    [[nodiscard]] bool means_something(const Knob &knob) const;
    [[nodiscard]] double spread() const;
    void begin_round();
    void begin_next_trial();
    void end_trial(Verdict verdict);
    void rest();
    static std::string in_words(const std::string &choice, const Finding &finding);
    void watch(double seconds);
    [[nodiscard]] bool conditions_changed() const;

    const std::vector<Knob> knobs_;
    std::vector<size_t> settled_;
    std::vector<size_t> setting_;
    std::vector<std::vector<Finding>> findings_; ///< of the last trials, by knob and choice

    std::vector<Candidate> waiting_; ///< of this round, the next one last
    std::optional<Candidate> tried_; ///< empty between trials
    PairedTrial trial_;
    std::vector<double> last_; ///< logarithms of the last settled tokens' times, a window of them
    std::optional<double> waits_;
    bool moved_ = false;          ///< in this round
    bool reads_ = false;          ///< the last token of the settled setting read
    size_t left_alone_ = kWarmUp; ///< tokens until the next round
    size_t rest_ = kRest;

    std::vector<double> then_; ///< logarithms of the first tokens' times after settling
    std::vector<double> now_;  ///< of the last ones, in a ring
    size_t next_ = 0;          ///< of the ring
    size_t tokens_tried_ = 0;
    size_t changes_noticed_ = 0;
};

} // namespace sluice::streaming
