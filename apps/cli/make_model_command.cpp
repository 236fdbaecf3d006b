// sluice make-model: models with random weights and real shapes, for benchmarks and tests.

#include "command.h"
#include "output.h"
#include "terminal.h"

#include "tools/make_model.h"

#include <fmt/format.h>
#include <memory>
#include <string>

namespace sluice::cli {

namespace {

struct MakeFlags {
    tools::ModelRecipe recipe;
    std::string out;
};

Status make(const MakeFlags &flags) {
    ProgressLine progress;
    const InterruptGuard interrupt;
    auto made = tools::make_model(flags.recipe, flags.out, [&](uint64_t done, uint64_t all) {
        progress.show("writing", all == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(all));
        return !interrupt.interrupted();
    });
    progress.clear();
    if (!made) {
        return fail(made.error());
    }
    TextOutput output;
    output.write(*made + "\n");
    return output.status();
}

} // namespace

void add_make_model_command(CLI::App &app, int &exit_code) {
    CLI::App *command =
        app.add_subcommand("make-model", "Write a model with random weights and the shapes of a real one");
    auto flags = std::make_shared<MakeFlags>();
    std::string recipes = "Whose shapes:";
    for (const tools::RecipeInfo &recipe : tools::recipe_names()) {
        recipes += fmt::format("\n{}: {}", recipe.name, recipe.about);
    }
    command->add_option("--like", flags->recipe.like, recipes)->required();
    command->add_option("-o,--out", flags->out, "File to write")->required();
    command->add_option("--layers", flags->recipe.layers, "Layers; 0: the recipe's own number")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    command->add_option("--type", flags->recipe.type, "ggml type of the experts (default: the recipe's)");
    command->add_option("--seed", flags->recipe.seed, "Seed of the weights")->capture_default_str();
    command->add_option("--shards", flags->recipe.shards, "Files to split the model into")
        ->check(CLI::Range(1, 999))
        ->capture_default_str();
    command->callback([flags, &exit_code] {
        const Status status = make(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
