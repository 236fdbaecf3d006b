// The command line of `sluice serve` and `sluice chat`: options of llama.cpp's programs, in their spelling
// and with their meaning, and beside them Sluice's own. Each goes to whom it belongs.
#pragma once

#include "base/error.h"
#include "planning/plan.h"

#include "arg.h"
#include "common.h"

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::serve {

/// A command line taken apart.
class Arguments {
public:
    /// `words` are those behind the command `command` ("serve"); `example` is the program of llama.cpp whose
    /// options are meant. Options that an environment variable sets come first (SLUICE_*). Errors:
    /// InvalidArgument, for an option that neither knows, a missing value, a value of ours that is none.
    static Result<Arguments> parse(const std::string &command, const std::vector<std::string> &words,
                                   llama_example example);

    /// Was one of these options of llama.cpp's given, on the command line or by its environment variable?
    [[nodiscard]] bool given(std::initializer_list<std::string_view> names) const;
    /// Does one that was given begin so?
    [[nodiscard]] bool given_like(std::string_view beginning) const;

    PlanRequest request;             ///< what Sluice's options say
    std::vector<std::string> words;  ///< as they were given
    bool plan = false;               ///< --plan
    bool help = false;               ///< also among llama.cpp's options
    std::vector<std::string> theirs; ///< "sluice", then llama.cpp's options with their values
    std::map<std::string, std::string>
        ours; ///< variable to value: a program started with these has our options

private:
    std::vector<std::string> given_; ///< llama.cpp's, all spellings of each
};

/// What `--help` prints of Sluice's own options.
std::string own_help(const std::string &command);

} // namespace sluice::serve
