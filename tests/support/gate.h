// The two sides of a byte-identity gate.
#pragma once

#include "support/gate_batch.h"

#include "session/model.h"
#include "session/session.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {

/// How large a cache a gate runs with.
enum class CacheSize {
    Everything, ///< every slice fits
    WorkingSet, ///< one token's slices
    Minimum,    ///< what one layer needs for one token
};

/// Who decides about threads, reading and lookahead.
enum class Decides {
    Gate,           ///< all is given
    Itself,         ///< the run
    ItselfRestless, ///< the run, and each batch is computed with another setting
};

/// One gate: a model and how it is run on both sides.
struct GateConfig {
    std::string model = {};
    CacheSize cache = CacheSize::Minimum;
    CachePolicy policy = CachePolicy::NextUse;
    int threads = 2;
    uint32_t ubatch = 64;
    size_t prompt = 20;
    int drawn = 24;
    int prompts = 1;
    bool direct = true;
    bool repack = true;
    bool repack_experts = false; ///< against stock as it is by default
    /// Bytes for rows; empty: without row streaming. Then rows must have been read, and given back where the
    /// window is a single slab.
    std::optional<uint64_t> row_window = {};
    DenseWeights dense = DenseWeights::Anon;
    BatchKind batch = BatchKind::Tokens; ///< other kinds ignore prompt, drawn and prompts
    uint32_t lookahead = 0;              ///< experts guessed for each layer, if the gate decides
    Decides decides = Decides::Gate;
    bool experts = true; ///< the model has some, and they must have been streamed
    /// Called on the streamed side before each decode, with how many there were so far; may be empty.
    std::function<void(Model &, size_t)> before_decode = {};
};

/// All logits in order (prompt tokens, then drawn ones, prompt by prompt), and what the streamed side
/// counted.
struct GateRun {
    size_t vocabulary = 0;
    std::vector<float> logits;
    RunStats stats;
    ModelInfo info;
    std::vector<RowTableInfo> row_tables;
};

/// Runs stock llama.cpp in another process. Records a test failure and returns nothing if that fails.
std::vector<float> run_stock(const GateConfig &config);

/// Runs the same through Sluice. Records a test failure if anything fails.
GateRun run_streamed(const GateConfig &config);

/// How `config` wants its model loaded, but for the size of the cache.
ModelOptions gate_options(const GateConfig &config);

/// Feeds a session of its own on `model` the prompts of `config` and returns all logits. The model's path,
/// cache and reading in `config` don't matter. Records a test failure if anything fails.
std::vector<float> run_session(Model &model, const GateConfig &config);

/// The cache size in bytes that `size` means for this model.
uint64_t cache_bytes(const std::string &model, CacheSize size, bool direct);

/// Requires that `streamed` gave the bytes of `stock`, and that streaming really happened: see
/// expect_identical().
void expect_same(const GateConfig &config, const std::vector<float> &stock, const GateRun &streamed);

/// Runs both sides and requires equal bytes. Also requires that streaming really happened: slices were read,
/// and evicted and read again where the cache is smaller than the model. Returns the streamed side.
GateRun expect_identical(const GateConfig &config);

/// A path for a file of this test process.
std::string scratch_path(const std::string &name);

/// Path of a generated tiny model: a recipe of make_model, made on first use in this process.
std::string tiny_model(const std::string &recipe, const std::string &type = "", int shards = 1);

/// The folder of those that upstream's test-llama-archs saved.
std::string arch_models();

/// Path of a model saved by upstream's test-llama-archs; see tests/CMakeLists.txt.
std::string arch_model(const std::string &name);

} // namespace sluice::test
