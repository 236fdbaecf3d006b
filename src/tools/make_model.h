// Writes models with random weights: real shapes for benchmarks, tiny ones for the gates.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::tools {

/// What to write. The same recipe and seed give the same bytes on every machine.
struct ModelRecipe {
    std::string like{}; ///< a name from recipe_names()
    int layers = 0;     ///< 0: the recipe's own number
    std::string
        type{}; ///< ggml name of the experts' type ("q4_K", "mxfp4", "f16", ...); empty: the recipe's own
    uint64_t seed = 7;
    int shards = 1; ///< more than 1: write "-00001-of-0000N" files instead of one
};

/// The shapes on offer, with a line on each. "tiny-*" are for tests.
struct RecipeInfo {
    std::string name;
    std::string about;
};
std::vector<RecipeInfo> recipe_names();

/// Writes the model to `path` (for several shards, `path` without ".gguf" is the prefix). Written to a
/// temporary name and renamed when whole, so that a full disk or a killed process leaves no half model.
/// `progress` (may be empty) is called with bytes written and bytes in all; returning false cancels.
/// Returns the path of the (first) file. Errors: InvalidArgument, Io (disk full, with the number), Cancelled.
Result<std::string> make_model(const ModelRecipe &recipe, const std::string &path,
                               const std::function<bool(uint64_t, uint64_t)> &progress);

} // namespace sluice::tools
