// What a model file consists of, and what streaming would do with it.
#pragma once

#include "base/error.h"
#include "options/options.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What becomes of a weight when everything that can be streamed is.
enum class WeightRole {
    Experts, ///< a bank of experts, of which a token needs a few: read as it is routed to them
    Rows,    ///< a table that rows are gathered from and nothing else: with row streaming read row by row
    Dense,   ///< every token multiplies it, or it is small: in memory
    Unused,  ///< in the file, but computing a token does not touch it
};

/// One tensor of the file.
struct WeightInfo {
    std::string name;
    std::string type;                         ///< as ggml names it
    std::array<int64_t, 4> shape{1, 1, 1, 1}; ///< elements, innermost first
    uint64_t bytes = 0;
    size_t file = 0;     ///< index into ModelInspection::files
    uint64_t offset = 0; ///< bytes from the start of that file
    WeightRole role = WeightRole::Dense;
    std::vector<std::string> operations; ///< ggml's operations that read it, sorted, each once
};

/// Banks of experts whose slices are alike.
struct SliceKind {
    std::string type;   ///< as ggml names it
    uint64_t bytes = 0; ///< of one slice: one expert in one bank
    size_t experts = 0; ///< in each bank
    size_t banks = 0;
};

/// One routing decision of a token.
struct ExpertLayer {
    size_t experts = 0;
    size_t experts_per_token = 0;
    std::vector<std::string> banks; ///< in the order they are used
    uint64_t token_bytes = 0;       ///< slices that one token touches here
};

/// The outcome. Bytes unless named otherwise.
struct ModelInspection {
    std::vector<std::string> files;  ///< all shards
    uint64_t file_bytes = 0;         ///< of all of them
    std::string description;         ///< llama.cpp's one-line description
    std::string architecture;        ///< as the file names it
    std::vector<WeightInfo> weights; ///< in the order of the file
    std::vector<SliceKind> slices;   ///< largest first
    std::vector<ExpertLayer> layers; ///< in the order in which a token passes them; empty: no experts
    uint64_t expert_bytes = 0;       ///< all slices
    uint64_t working_set_bytes = 0;  ///< slices that one token touches
};

/// Looks at `options.path` and at how llama.cpp would use it: loads its description and lays a graph out.
/// Reads no weights, computes nothing. Of the options only `path`, `direct` and `repack` matter.
/// Errors: as Model::load.
Result<ModelInspection> inspect_model(const ModelOptions &options);

/// "experts", "rows", "dense" or "unused".
const char *weight_role_name(WeightRole role);

} // namespace sluice
