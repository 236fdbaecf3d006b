#include "tools/make_model_recipes.h"

#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace sluice::tools {

namespace {

constexpr int max_layers = 512; // LLAMA_MAX_LAYERS: more would abort the loader

struct Recipe {
    const char *name;
    const char *about;
    int layers;
    int least_layers; ///< where layers differ, so many that each kind is there
    int expert_type;  ///< a ggml_type; -1: the model has no experts
    ModelPlan (*plan)(const RecipeChoice &);
};

constexpr Recipe recipes[] = {
    {"qwen3-30b-a3b", "Qwen3-30B-A3B: 48 layers, 128 experts, 8 used, q4_K with q6_K in half of the layers",
     48, 1, GGML_TYPE_Q4_K, plan_qwen3_30b},
    {"qwen3-248k",
     "the same with a vocabulary of 248,320: 8 layers, a q8_0 embedding table (540 MB), its own output", 8, 1,
     GGML_TYPE_Q4_K, plan_qwen3_248k},
    {"qwen3-words",
     "the shapes of Qwen3-30B-A3B in 5 layers (2.4 GB), with a vocabulary of numbered words: sluice run can "
     "use "
     "it",
     5, 1, GGML_TYPE_Q4_K, plan_qwen3_words},
    {"ernie-4.5-21b-a3b",
     "ERNIE-4.5-21B-A3B: 28 layers, the first one dense, 64 experts, 6 used beside 2 shared ones, q4_K with "
     "q6_K "
     "as in a Q4_K_M file",
     28, 2, GGML_TYPE_Q4_K, plan_ernie_21b},
    {"hashed-20g",
     "Qwen3.8-Flash-Next: 4 layers, 512 experts, 10 used, an n-gram table of 224 million q4_0 rows (20.2 GB)",
     4, 4, GGML_TYPE_Q4_K, plan_hashed_20g},
    {"tiny-qwen3moe", "3 layers of 16 experts, 4 used, in any type", 3, 1, GGML_TYPE_Q4_K,
     plan_tiny_qwen3moe},
    {"tiny-mixed", "like tiny-qwen3moe, with q4_K and q6_K experts in every layer, in turn", 3, 1,
     GGML_TYPE_Q4_K, plan_tiny_mixed},
    {"tiny-gemma4",
     "fused gate and up experts beside a dense FFN, a per-layer embedding table, windowed layers", 4, 2,
     GGML_TYPE_Q8_0, plan_tiny_gemma4},
    {"tiny-gemma-dense", "the same without experts and with an output of its own", 4, 2, -1,
     plan_tiny_gemma_dense},
    {"tiny-gpt-oss", "mxfp4 experts with biases, attention sinks", 3, 1, GGML_TYPE_MXFP4, plan_tiny_gpt_oss},
    {"tiny-nemotron-h-moe", "Mamba-2, attention and expert layers in turn, with a shared expert and no gates",
     6, 4, GGML_TYPE_Q8_0, plan_tiny_nemotron_h_moe},
    {"tiny-ernie", "a dense layer, then layers of 16 experts, 4 used beside 2 shared ones; tied", 3, 2,
     GGML_TYPE_Q4_K, plan_tiny_ernie},
    {"tiny-idle", "like tiny-ernie, but no graph uses the experts of every second layer", 4, 3,
     GGML_TYPE_Q4_K, plan_tiny_idle},
    {"tiny-hashed", "linear and sparse attention in turn, a table of 65,792 rows gathered by n-gram hashes",
     4, 4, GGML_TYPE_Q4_K, plan_tiny_hashed},
    {"tiny-vocab", "like tiny-qwen3moe, with an embedding table of 8,192 q6_K rows", 3, 1, GGML_TYPE_Q4_K,
     plan_tiny_vocab},
    {"tiny-tied", "like tiny-qwen3moe, the output being the embedding table", 3, 1, GGML_TYPE_Q4_K,
     plan_tiny_tied},
    {"tiny-dense", "no experts at all", 3, 1, -1, plan_tiny_dense},
};

std::string known_recipes() {
    std::string names;
    for (const Recipe &recipe : recipes) {
        names += names.empty() ? "" : ", ";
        names += recipe.name;
    }
    return names;
}

/// Whether every row consists of whole blocks; the experts' rows are the only ones a caller can affect.
Status check_rows(const ModelPlan &plan, std::string_view recipe) {
    for (const TensorPlan &tensor : plan.tensors) {
        const auto type = static_cast<ggml_type>(tensor.type);
        if (tensor.shape[0] % ggml_blck_size(type) != 0) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("type {} needs rows of a multiple of {} elements, but {} has rows of {}",
                                    ggml_type_name(type), ggml_blck_size(type), recipe, tensor.shape[0]));
        }
    }
    return {};
}

} // namespace

std::vector<RecipeInfo> recipe_names() {
    std::vector<RecipeInfo> infos;
    for (const Recipe &recipe : recipes) {
        infos.push_back({recipe.name, recipe.about});
    }
    return infos;
}

Result<ModelPlan> plan_model(const ModelRecipe &recipe) {
    const auto *known =
        std::find_if(std::begin(recipes), std::end(recipes),
                     [&recipe](const Recipe &candidate) { return candidate.name == recipe.like; });
    if (known == std::end(recipes)) {
        return fail(ErrorCode::InvalidArgument, fmt::format("there is no recipe called \"{}\"; there are {}",
                                                            recipe.like, known_recipes()));
    }
    const int layers = recipe.layers == 0 ? known->layers : recipe.layers;
    if (layers < known->least_layers || layers > max_layers) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} has {} to {} layers (0: its own {}), not {}", recipe.like,
                                known->least_layers, max_layers, known->layers, layers));
    }
    RecipeChoice choice{layers, known->layers, known->expert_type, !recipe.type.empty()};
    if (choice.type_given) {
        const std::optional<int> type = weight_type(recipe.type);
        if (!type) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("there is no weight type \"{}\"; there are {}", recipe.type,
                                    weight_type_names()));
        }
        if (known->expert_type < 0) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("{} has no experts, so their type cannot be chosen", recipe.like));
        }
        choice.expert_type = *type;
    }
    ModelPlan plan = known->plan(choice);
    if (Status status = check_rows(plan, recipe.like); !status) {
        return fail(status.error());
    }
    return plan;
}

PlanBuilder::PlanBuilder(std::string architecture, std::string_view name)
    : architecture_(std::move(architecture)) {
    general_key("general.architecture", architecture_);
    general_key("general.name", std::string(name) + " with random weights");
    general_key("general.quantization_version", uint32_t{GGML_QNT_VERSION});
    general_key("tokenizer.ggml.model", std::string("none"));
}

void PlanBuilder::key(std::string_view name, KeyValue value) {
    general_key(fmt::format("{}.{}", architecture_, name), std::move(value));
}

void PlanBuilder::general_key(std::string_view name, KeyValue value) {
    const auto known = std::find_if(plan_.keys.begin(), plan_.keys.end(),
                                    [name](const auto &entry) { return entry.first == name; });
    if (known != plan_.keys.end()) {
        known->second = std::move(value);
    } else {
        plan_.keys.emplace_back(name, std::move(value));
    }
}

void PlanBuilder::weight(std::string name, int type, std::vector<int64_t> shape, double gain) {
    TensorPlan tensor;
    tensor.name = std::move(name);
    tensor.type = type;
    tensor.dimensions = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), tensor.shape.begin());
    tensor.fill = Fill{0, gain / std::sqrt(static_cast<double>(shape[0]))};
    plan_.tensors.push_back(std::move(tensor));
}

void PlanBuilder::values(std::string name, std::vector<int64_t> shape, double mean, double spread) {
    weight(std::move(name), GGML_TYPE_F32, std::move(shape));
    plan_.tensors.back().fill = Fill{mean, spread};
}

std::string layer_tensor(int layer, std::string_view part) {
    return fmt::format("blk.{}.{}", layer, part);
}

} // namespace sluice::tools
