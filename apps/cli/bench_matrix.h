// The settings that `sluice bench` compares: all combinations of what its flags list.
#pragma once

#include <CLI/CLI.hpp>
#include <list>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// One combination.
struct BenchSetting {
    std::vector<std::string> arguments; ///< flags and values as for `sluice run`
    /// Of the flags that were given several values: name without dashes, value.
    std::vector<std::pair<std::string, std::string>> varied;

    /// `arguments` as one line, "defaults" if nothing was given.
    [[nodiscard]] std::string line() const;
};

/// The flags of `sluice run` that a plan depends on, each with a list of values instead of one. The names,
/// their order and what they allow come from add_plan_flags().
class BenchMatrix {
public:
    /// Adds the flags to `command`, which this outlives.
    void add_flags(CLI::App &command);

    /// All combinations of what was parsed, the last flag changing fastest; the first one is the base.
    /// Throws CLI::ParseError if `sluice run` would not take one of them.
    [[nodiscard]] std::vector<BenchSetting> settings() const;

private:
    struct Flag {
        std::string name; ///< with dashes
        bool takes_value = true;
        bool given = false;              ///< of a flag without a value
        std::vector<std::string> values; ///< of one with
    };
    std::list<Flag> flags_; ///< parsing fills them, so they must not move
};

} // namespace sluice::cli
