// What each recipe's model consists of: keys and tensors, as plain data.
#pragma once

#include "tools/make_model.h"
#include "tools/make_model_weights.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::tools {

using KeyValue =
    std::variant<uint32_t, float, bool, std::string, std::vector<bool>, std::vector<uint32_t>,
                 std::vector<uint64_t>, std::vector<int32_t>, std::vector<float>, std::vector<std::string>>;

struct TensorPlan {
    std::string name;
    int type = 0; ///< a ggml_type
    int dimensions = 1;
    std::array<int64_t, 4> shape{1, 1, 1, 1}; ///< elements, innermost first
    Fill fill;
};

struct ModelPlan {
    std::vector<std::pair<std::string, KeyValue>> keys;
    std::vector<TensorPlan> tensors;
};

/// The plan for `recipe`. Errors: InvalidArgument, naming what there is instead.
Result<ModelPlan> plan_model(const ModelRecipe &recipe);

/// What a recipe's builder needs to know.
struct RecipeChoice {
    int layers = 0;
    int real_layers = 0; ///< of the model that the recipe imitates
    int expert_type = 0; ///< a ggml_type; the builder's own if !type_given
    bool type_given = false;
};

/// Collects a plan. Names and shapes come from the builders, weights get a scale that keeps
/// activations near 1 whatever the width.
class PlanBuilder {
public:
    explicit PlanBuilder(std::string architecture, std::string_view name);

    void key(std::string_view name, KeyValue value);         ///< with the architecture before it
    void general_key(std::string_view name, KeyValue value); ///< as it is; replaces an earlier value

    /// A matrix, or a bank of matrices if there are three dimensions; `gain` 1 keeps the input's scale.
    void weight(std::string name, int type, std::vector<int64_t> shape, double gain = 1);
    /// Float values around `mean`; with mean 0, of standard deviation `spread`.
    void values(std::string name, std::vector<int64_t> shape, double mean, double spread = 0);

    [[nodiscard]] ModelPlan take() { return std::move(plan_); }

private:
    std::string architecture_;
    ModelPlan plan_;
};

/// "blk.<layer>.<part>"
std::string layer_tensor(int layer, std::string_view part);

ModelPlan plan_qwen3_30b(const RecipeChoice &choice);
ModelPlan plan_qwen3_248k(const RecipeChoice &choice);
ModelPlan plan_qwen3_words(const RecipeChoice &choice);
ModelPlan plan_tiny_qwen3moe(const RecipeChoice &choice);
ModelPlan plan_tiny_mixed(const RecipeChoice &choice);
ModelPlan plan_tiny_tied(const RecipeChoice &choice);
ModelPlan plan_tiny_vocab(const RecipeChoice &choice);
ModelPlan plan_tiny_dense(const RecipeChoice &choice);
ModelPlan plan_tiny_gemma4(const RecipeChoice &choice);
ModelPlan plan_tiny_gemma_dense(const RecipeChoice &choice);
ModelPlan plan_tiny_gpt_oss(const RecipeChoice &choice);
ModelPlan plan_tiny_nemotron_h_moe(const RecipeChoice &choice);
ModelPlan plan_tiny_hashed(const RecipeChoice &choice);
ModelPlan plan_tiny_ernie(const RecipeChoice &choice);
ModelPlan plan_tiny_idle(const RecipeChoice &choice);
ModelPlan plan_ernie_21b(const RecipeChoice &choice);
ModelPlan plan_hashed_20g(const RecipeChoice &choice);

} // namespace sluice::tools
