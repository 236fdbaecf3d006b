// Which weights of a model being loaded come to us, and as what. Decided by the operation that the loader
// asks about; names are only keys into the file.
#pragma once

#include "gguf/gguf_directory.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::streaming {

/// How a weight in a streamed buffer is kept.
enum class Role {
    Experts, ///< a bank of experts, read slice by slice into the expert cache
    Rows,    ///< a table that is only gathered from, read slab by slab into its own reserved memory
    Dense,   ///< multiplied whole: held in memory, or mapped from the file
};

/// Why a table that is gathered from is, or is not, the head of the model as well.
enum class Tie {
    None,
    OneTensor, ///< gathered from and multiplied in the same layout: one weight, held in memory
    Beside,    ///< multiplied from memory of its own (repacked, say): rows still come from storage
};

/// A weight that the loader asked to gather rows from.
struct TableCandidate {
    std::string name;
    uint64_t bytes = 0;
    Tie tie = Tie::None;
    std::string refusal; ///< why the file cannot serve it; empty if it can
};

struct PlacementOptions {
    bool rows = false;      ///< take tables that are gathered from
    bool map_dense = false; ///< take dense weights, to map them from the file
    bool repack = true;     ///< the loader may put weights in buffers that repack them
};

/// Used while one model loads, by the loading thread. `directory` outlives it.
class Placement {
public:
    Placement(const gguf::GgufDirectory &directory, PlacementOptions options)
        : directory_(directory), options_(options) {}

    /// The loader's question: `op` is a dummy operation on a weight that lies in a buffer of our type. May be
    /// asked twice for one name: llama.cpp makes a second tensor over the same bytes where the token
    /// embedding is the output head too.
    bool wants(const ggml_tensor *op);

    /// What `weight` was wanted as; null if it was not.
    [[nodiscard]] const Role *role_of(const ggml_tensor *weight) const;

    /// Whether the file has `weight` with this very type, shape and size.
    [[nodiscard]] const gguf::TensorEntry *entry_of(const ggml_tensor *weight) const;

    [[nodiscard]] const std::vector<TableCandidate> &tables() const { return tables_; }
    /// What the loader holds beside the weights for a moment, at most: each one as read directly, and where
    /// it is repacked cut from that as well. Bytes.
    [[nodiscard]] uint64_t load_transient_bytes() const { return load_transient_bytes_; }

private:
    bool wants_bank(const ggml_tensor *weight) const;
    bool wants_table(const ggml_tensor *weight);
    bool wants_dense(const ggml_tensor *op, const ggml_tensor *weight);
    TableCandidate *table_called(const std::string &name);

    const gguf::GgufDirectory &directory_;
    const PlacementOptions options_;
    std::unordered_map<std::string, Role> roles_;
    std::unordered_set<std::string> left_dense_; ///< weights that another buffer type multiplies
    std::vector<TableCandidate> tables_;
    uint64_t load_transient_bytes_ = 0;
};

/// The weight in one of the loader's dummy operations: the only source that has a buffer. Null if none has.
ggml_tensor *weight_of(const ggml_tensor *op);

/// The one of the CPU's own buffer types, which hold weights in another layout, that stock llama.cpp would
/// put the weight of `op` (a dummy operation, as above) in; null: it stays as in the file.
ggml_backend_buffer_type_t repacking_type(const ggml_tensor *op);

} // namespace sluice::streaming
