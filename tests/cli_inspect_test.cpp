// sluice inspect: numbers against those of the recipes that the models are made from, the plan against that
// of sluice run, files that are no models.

#include "support/cli.h"
#include "support/docs.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include "tools/make_model_recipes.h"

#include "ggml.h"
#include "gguf.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace sluice::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

constexpr int failed = 1;
constexpr int usage = 2;

ChildResult inspect(const std::string &model, const Arguments &more = {}) {
    Arguments arguments = {"inspect", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sluice(arguments);
}

json inspect_json(const std::string &model, Arguments more = {}) {
    more.emplace_back("--json");
    const ChildResult result = inspect(model, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
}

/// What a recipe says of its experts, without anything that Sluice finds out about the file.
struct Recipe {
    uint64_t tensor_bytes = 0;
    size_t tensors = 0;
    uint64_t expert_bytes = 0;
    size_t banks = 0;
    uint64_t token_bytes = 0; ///< layers x experts used x slice bytes
};

Recipe numbers_of(const tools::ModelPlan &plan) {
    Recipe numbers;
    uint64_t used = 0;
    for (const auto &[key, value] : plan.keys) {
        if (key.ends_with(".expert_used_count")) {
            used = std::get<uint32_t>(value);
        }
    }
    for (const tools::TensorPlan &tensor : plan.tensors) {
        const uint64_t slice = ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]) *
                               static_cast<uint64_t>(tensor.shape[1]);
        const auto experts = static_cast<uint64_t>(tensor.shape[2]);
        numbers.tensor_bytes += slice * experts * static_cast<uint64_t>(tensor.shape[3]);
        ++numbers.tensors;
        if (experts > 1) {
            numbers.expert_bytes += slice * experts;
            numbers.token_bytes += used * slice;
            ++numbers.banks;
        }
    }
    return numbers;
}

class InspectRecipe : public testing::TestWithParam<const char *> {};

TEST_P(InspectRecipe, NumbersAreThoseOfTheRecipe) {
    const auto plan = tools::plan_model({.like = GetParam()});
    ASSERT_TRUE(plan) << plan.error().message;
    const Recipe recipe = numbers_of(*plan);
    const json found = inspect_json(tiny_model(GetParam()));
    const json &experts = found["experts"];
    EXPECT_EQ(experts["bytes"], recipe.expert_bytes);
    EXPECT_EQ(experts["token_bytes"], recipe.token_bytes);
    EXPECT_EQ(found["roles"]["experts"]["tensors"], recipe.banks);
    EXPECT_EQ(found["roles"]["experts"]["bytes"], recipe.expert_bytes);
    EXPECT_EQ(found["tensors"].size(), recipe.tensors);
    uint64_t bytes = 0;
    for (const json &role : found["roles"]) {
        bytes += role["bytes"].get<uint64_t>();
    }
    EXPECT_EQ(bytes, recipe.tensor_bytes);
    uint64_t slices = 0;
    for (const json &kind : experts["slices"]) {
        slices +=
            kind["bytes"].get<uint64_t>() * kind["experts"].get<uint64_t>() * kind["banks"].get<uint64_t>();
    }
    EXPECT_EQ(slices, recipe.expert_bytes);
    uint64_t of_layers = 0;
    for (const json &layer : experts["layers"]) {
        of_layers += layer["token_bytes"].get<uint64_t>();
    }
    EXPECT_EQ(of_layers, recipe.token_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, InspectRecipe,
                         testing::Values("tiny-qwen3moe", "tiny-mixed", "tiny-gemma4", "tiny-gpt-oss",
                                         "tiny-tied", "tiny-nemotron-h-moe", "tiny-vocab", "tiny-hashed",
                                         "tiny-ernie", "tiny-dense", "tiny-gemma-dense"),
                         [](const auto &info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// -- models without weights
// --------------------------------------------------------------------------

/// A file that has the header of a recipe's model and a hole where its weights would be.
std::string hollow_model(const ScratchDir &dir, const std::string &recipe, const std::string &extra = "") {
    auto plan = tools::plan_model({.like = recipe});
    EXPECT_TRUE(plan);
    if (!extra.empty()) {
        plan->tensors.push_back(
            {.name = extra, .type = GGML_TYPE_F32, .dimensions = 1, .shape = {1, 1, 1, 1}, .fill = {}});
    }
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> file(gguf_init_empty(), &gguf_free);
    for (const auto &[key, value] : plan->keys) {
        if (const auto *number = std::get_if<uint32_t>(&value)) {
            gguf_set_val_u32(file.get(), key.c_str(), *number);
        } else if (const auto *real = std::get_if<float>(&value)) {
            gguf_set_val_f32(file.get(), key.c_str(), *real);
        } else if (const auto *text = std::get_if<std::string>(&value)) {
            gguf_set_val_str(file.get(), key.c_str(), text->c_str());
        }
    }
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> tensors(
        ggml_init({.mem_size = ggml_tensor_overhead() * plan->tensors.size(),
                   .mem_buffer = nullptr,
                   .no_alloc = true}),
        &ggml_free);
    for (const tools::TensorPlan &planned : plan->tensors) {
        ggml_tensor *tensor = ggml_new_tensor(tensors.get(), static_cast<ggml_type>(planned.type),
                                              planned.dimensions, planned.shape.data());
        ggml_set_name(tensor, planned.name.c_str());
        gguf_add_tensor(file.get(), tensor);
    }
    const std::string path = dir / "hollow.gguf";
    EXPECT_TRUE(gguf_write_to_file(file.get(), path.c_str(), /*only_meta=*/true));
    const int64_t last = gguf_get_n_tensors(file.get()) - 1;
    std::filesystem::resize_file(path, std::filesystem::file_size(path) +
                                           gguf_get_tensor_offset(file.get(), last) +
                                           gguf_get_tensor_size(file.get(), last));
    return path;
}

// -- roles
// --------------------------------------------------------------------------------------------------------

json tensor_called(const json &found, const std::string &name) {
    for (const json &tensor : found["tensors"]) {
        if (tensor["name"] == name) {
            return tensor;
        }
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
}

TEST(InspectRoles, ComeFromTheOperationsThatUseAWeight) {
    const json found = inspect_json(tiny_model("tiny-vocab"));
    const json table = tensor_called(found, "token_embd.weight");
    EXPECT_EQ(table["role"], "rows");
    EXPECT_EQ(table["operations"], json({"GET_ROWS"}));
    EXPECT_EQ(table["bytes"], 8192 * 210) << "8,192 rows of 256 weights in q6_K";
    const json bank = tensor_called(found, "blk.1.ffn_down_exps.weight");
    EXPECT_EQ(bank["role"], "experts");
    EXPECT_EQ(bank["operations"], json({"MUL_MAT_ID"}));
    EXPECT_EQ(bank["type"], "q4_K");
    EXPECT_EQ(tensor_called(found, "blk.1.ffn_gate_inp.weight")["role"], "dense");
}

TEST(InspectRoles, TableThatIsTheHeadAsWellIsDense) {
    const json found = inspect_json(tiny_model("tiny-tied"), {"--no-repack"});
    const json table = tensor_called(found, "token_embd.weight");
    EXPECT_EQ(table["role"], "dense");
    EXPECT_EQ(table["operations"], json({"GET_ROWS", "MUL_MAT"}));
}

TEST(InspectRoles, TensorThatNoOperationReadsIsUnused) {
    const ScratchDir dir;
    // The scale of activations in some quantised files, which the CPU's kernels have no use for.
    const json found = inspect_json(hollow_model(dir, "tiny-qwen3moe", "blk.0.attn_q.input_scale"));
    EXPECT_EQ(found["roles"]["unused"], json({{"tensors", 1}, {"bytes", 4}, {"operations", json::array()}}));
    EXPECT_EQ(tensor_called(found, "blk.0.attn_q.input_scale")["role"], "unused");
}

TEST(InspectSplit, ShardsTogetherAreTheWholeModel) {
    const json whole = inspect_json(tiny_model("tiny-mixed"));
    const std::string first = tiny_model("tiny-mixed", "", 3);
    const json split = inspect_json(first);
    ASSERT_EQ(split["files"].size(), 3U);
    EXPECT_EQ(split["files"][0], first);
    EXPECT_EQ(split["roles"], whole["roles"]);
    EXPECT_EQ(split["experts"]["token_bytes"], whole["experts"]["token_bytes"]);
    size_t last_file = 0;
    for (const json &tensor : split["tensors"]) {
        last_file = std::max(last_file, tensor["file"].get<size_t>());
        EXPECT_LE(
            tensor["offset"].get<uint64_t>() + tensor["bytes"].get<uint64_t>(),
            std::filesystem::file_size(split["files"][tensor["file"].get<size_t>()].get<std::string>()));
    }
    EXPECT_EQ(last_file, 2U);
}

TEST(InspectLarge, SeventeenGigabytesAreInspectedInTwoOfAddressSpace) {
    const ScratchDir dir;
    const ChildResult result =
        sluice({"inspect", hollow_model(dir, "qwen3-30b-a3b"), "--json", "--moe-stream"},
               {.limits = {{RLIMIT_AS, rlim_t{2} << 30U}}});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json found = json::parse(result.out);
    EXPECT_GT(found["file_bytes"], uint64_t{15} << 30U);
    // 48 layers, 8 experts used; gate and up q4_K (2048 x 768), down q6_K in half of the layers.
    const uint64_t q4 = uint64_t{2048} * 768 / 256 * 144;
    const uint64_t q6 = uint64_t{2048} * 768 / 256 * 210;
    EXPECT_EQ(found["experts"]["token_bytes"], 48 * 8 * 2 * q4 + 24 * 8 * (q4 + q6));
}

// -- the plan
// -----------------------------------------------------------------------------------------------------

std::string after(const std::string &text, const std::string &line) {
    const size_t at = text.find("\n" + line);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? "" : text.substr(at);
}

TEST(InspectPlan, IsThePlanOfARunWithTheSameFlags) {
    const Arguments flags = {"--moe-stream", "--cache-mb",      "4",   "-c", "256", "-ub", "32", "-t", "1",
                             "--row-stream", "--dense-weights", "mmap"};
    Arguments run = {"run", "-m", embedded(), "--plan"};
    run.insert(run.end(), flags.begin(), flags.end());
    const ChildResult planned = sluice(run);
    const ChildResult inspected = inspect(embedded(), flags);
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
    EXPECT_EQ(after(inspected.out, "decisions:"), after(planned.out, "decisions:"));
    EXPECT_THAT(inspected.out, HasSubstr("\n  expert cache                   4.0 MiB\n"));
    EXPECT_THAT(inspected.out, HasSubstr("\ncommand: sluice run -m " + embedded() + " --threads 1 "));
}

TEST(InspectPlan, WarningsGoToStandardError) {
    const ChildResult result = inspect(embedded(), {"--moe-stream", "--cache-mb", "1"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("sluice: the expert cache of 1 MiB is smaller than the 4 MiB"));
}

TEST(InspectPlan, RefusalComesAfterWhatIsKnownOfTheFile) {
    const ChildResult result = inspect(embedded(), {"--ram-mb", "16"});
    EXPECT_THAT(result.out, StartsWith("model: " + embedded() + "\n"));
    EXPECT_THAT(result.out, HasSubstr("\nexperts: 29.1 MiB; one token touches 3.6 MiB\n"));
    EXPECT_THAT(result.out, Not(HasSubstr("memory plan:")));
    expect_failed(result, "MiB are missing");
    const ChildResult as_json = inspect(embedded(), {"--ram-mb", "16", "--json"});
    expect_failed(as_json, "MiB are missing");
    const json found = json::parse(as_json.out);
    EXPECT_TRUE(found["plan"].is_null());
    EXPECT_EQ("sluice: " + found["refusal"].get<std::string>(), as_json.err_lines().back());
}

TEST(InspectText, SaysWhatADenseModelIs) {
    const ChildResult result = inspect(tiny_model("tiny-dense"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nexperts: none\nmemory plan:\n"));
    EXPECT_EQ(result.err, "");
}

// -- the contract
// -------------------------------------------------------------------------------------------------

TEST(InspectDocs, JsonHasThePagesMembers) {
    std::set<std::string> members;
    for (const json &found : {inspect_json(embedded(), {"--moe-stream"}),
                              json::parse(inspect(embedded(), {"--json", "--ram-mb", "16"}).out)}) {
        EXPECT_EQ(found["v"], 1);
        add_member_paths(found, "", members);
    }
    members.erase("plan"); // null where the run was refused
    for (const char *role : {"experts", "rows", "dense", "unused"}) {
        for (const char *member : {"tensors", "bytes", "operations"}) {
            EXPECT_EQ(members.erase(std::string("roles.") + role + "." + member), 1U) << role << member;
            members.insert(std::string("roles.ROLE.") + member);
        }
    }
    EXPECT_EQ(members, documented_members("inspect.md", "## JSON"));
}

// -- files that are no models
// --------------------------------------------------------------------------------------

TEST(InspectErrors, FilesThatAreNoModelsAreRefusedInOneSentence) {
    const ScratchDir dir;
    std::string bytes = read_text(tiny_model("tiny-qwen3moe"));
    expect_refused(inspect(dir / "none.gguf"), failed, "none.gguf");
    expect_refused(inspect(dir.path()), failed, dir.path());
    expect_refused(inspect(dir.write("empty.gguf", "")), failed, "empty.gguf");
    expect_refused(inspect(dir.write("text.gguf", std::string(100000, 'x'))), failed, "text.gguf");
    for (const size_t size : {size_t{4}, size_t{100}, size_t{1500}, bytes.size() / 2, bytes.size() - 1}) {
        SCOPED_TRACE(size);
        expect_refused(inspect(dir.write("cut.gguf", bytes.substr(0, size))), failed, "cut.gguf");
    }
    const size_t name = bytes.find("qwen3moe");
    ASSERT_NE(name, std::string::npos);
    bytes.replace(name, 8, "qwen3woe");
    expect_refused(inspect(dir.write("unknown.gguf", bytes)), failed, "unknown.gguf");
    expect_refused(inspect(dir.write("as-json.gguf", bytes), {"--json"}), failed, "as-json.gguf");
}

TEST(InspectErrors, MissingShardIsNamed) {
    const ScratchDir dir;
    const std::string first = tiny_model("tiny-mixed", "", 3);
    const std::string name = std::filesystem::path(first).filename().string();
    std::filesystem::copy_file(first, dir / name);
    expect_refused(inspect(dir / name), failed, "-00002-of-00003.gguf");
}

TEST(InspectErrors, WrongUseIsNamed) {
    expect_refused(sluice({"inspect"}), usage, "FILE is required");
    expect_refused(inspect(embedded(), {"--cache-mb", "0"}), usage, "--cache-mb");
    expect_refused(inspect(embedded(), {"-p", "x"}), usage, "-p");
    expect_refused(inspect(embedded(), {"--row-stream"}), usage, "--moe-stream");
}

} // namespace
} // namespace sluice::test
