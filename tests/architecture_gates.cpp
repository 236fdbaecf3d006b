// Every architecture that the pinned llama.cpp knows: each tiny model that upstream's test-llama-archs saved,
// streamed with the smallest cache and a row window of one slab, gives every logit byte of stock llama.cpp.
// What was streamed of each is the table of docs/models.md. With SLUICE_WRITE_MODELS_PAGE set, the run writes
// it.

#include "residency/row_source.h"
#include "support/gate.h"
#include "support/run_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <vector>

namespace sluice::test {
namespace {

constexpr const char *kPage = SLUICE_MODELS "/../docs/models.md";

std::vector<std::string> saved_models() {
    std::vector<std::string> paths;
    for (const auto &entry : std::filesystem::directory_iterator(arch_models())) {
        if (entry.path().extension() == ".gguf") {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

bool any_table_streamed(const GateRun &run) {
    return std::any_of(run.row_tables.begin(), run.row_tables.end(),
                       [](const RowTableInfo &table) { return table.streamed; });
}

/// False also where a model's banks are loaded and no graph of its architecture uses them.
bool uses_experts(const GateRun &run) {
    return run.stats.experts.hits + run.stats.experts.misses > 0;
}

/// A prompt as one batch and tokens one by one, on both sides.
GateRun run_both(const std::string &path, bool repack) {
    GateConfig config{.model = path, .drawn = 12, .repack = repack, .row_window = residency::slab_bytes()};
    const std::vector<float> stock = run_stock(config);
    GateRun streamed = run_streamed(config);
    config.experts = uses_experts(streamed);
    if (!any_table_streamed(streamed)) {
        config.row_window.reset();
    }
    expect_same(config, stock, streamed);
    return streamed;
}

std::string experts_cell(const GateRun &run) {
    if (run.info.expert_banks == 0) {
        return "none in this model";
    }
    return fmt::format("{} banks{}", run.info.expert_banks,
                       uses_experts(run) ? "" : " loaded, never read: no graph uses them");
}

std::string rows_cell(const GateRun &run) {
    std::string cell;
    for (const RowTableInfo &table : run.row_tables) {
        cell += fmt::format("{}`{}`{}", cell.empty() ? "" : "; ", table.name,
                            table.streamed ? "" : " not: " + table.reason);
        if (table.streamed && table.index_is_computed) {
            cell += " (indices computed)";
        }
    }
    return cell.empty() ? "no table is gathered from" : cell;
}

std::string row_of(const std::string &path, const GateRun &run) {
    return fmt::format("| {} | {} | {} |\n", std::filesystem::path(path).stem().string(), experts_cell(run),
                       rows_cell(run));
}

std::string page_of(size_t models, size_t with_experts, size_t with_rows, const std::string &rows) {
    return fmt::format(
        R"(# Models

Written by a run of `tests/architecture_gates.cpp`; a test compares this page with what the run gives.

llama.cpp's own `test-llama-archs` saves a tiny model, with random weights, of every architecture it can save: {} of them.
Each was run by stock llama.cpp in a process of its own and by Sluice with the smallest expert cache and a row window of
one slab, with dense weights repacked and not. **Every logit byte was equal**, of a prompt computed as a batch and of
tokens computed one by one. Experts were streamed in {} models, rows in {}.

* *Experts*: how many weights (banks, one of each kind for each layer) were read expert by expert. An architecture that
  has models with and without experts has a line for each: `-moe`, `-dense`.
* *Rows*: tables of which only rows were read, or why one was not. Which weights qualify is decided by how the graph
  uses them, never by name.

To write it anew: `SLUICE_WRITE_MODELS_PAGE=1 ctest --preset release -R architecture_gates`.

| model | experts | rows |
|---|---|---|
{})",
        models, with_experts, with_rows, rows);
}

TEST(EveryArchitecture, StreamsWithStocksBytesAndAsThePageSays) {
    const std::vector<std::string> paths = saved_models();
    ASSERT_GE(paths.size(), 100U) << "test-llama-archs saved too few models in " << arch_models();
    std::string rows;
    size_t with_experts = 0;
    size_t with_rows = 0;
    for (const std::string &path : paths) {
        SCOPED_TRACE(path);
        const GateRun repacked = run_both(path, true);
        const GateRun plain = run_both(path, false);
        EXPECT_EQ(row_of(path, repacked), row_of(path, plain));
        rows += row_of(path, plain);
        with_experts += plain.info.expert_banks > 0 ? 1 : 0;
        with_rows += any_table_streamed(plain) ? 1 : 0;
    }
    const std::string page = page_of(paths.size(), with_experts, with_rows, rows);
    if (std::getenv("SLUICE_WRITE_MODELS_PAGE") != nullptr) {
        ASSERT_FALSE(testing::Test::HasFailure()) << "the page is not written from a run that failed";
        std::ofstream(kPage) << page;
    }
    EXPECT_EQ(read_text(kPage), page) << "docs/models.md is not what this run gives; see there";
}

} // namespace
} // namespace sluice::test
