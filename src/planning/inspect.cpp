#include "planning/inspect.h"

#include "planning/paper_model.h"
#include "streaming/compute/expert_kernel.h"

#include "ggml-impl.h"
#include "llama-ext.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <new>
#include <set>

namespace sluice {

namespace {

/// Who reads a weight in a graph.
struct Uses {
    std::set<std::string> operations;
    bool streamable = true; ///< as a bank or as a table, whichever it is: no other use
};

using UsesByName = std::map<std::string, Uses, std::less<>>;

/// Whether this is how Sluice reads banks and tables slice by slice and row by row.
bool is_streamable(const ggml_tensor *node, size_t source) {
    return source == 0 && (node->op == GGML_OP_GET_ROWS ||
                           (node->op == GGML_OP_MUL_MAT_ID && streaming::kernel_supports(node)));
}

/// Names are keys here: of weights that the file has.
UsesByName uses_in(const ggml_cgraph &graph, const gguf::GgufDirectory &directory) {
    UsesByName uses;
    for (int i = 0; i < graph.n_nodes; ++i) {
        const ggml_tensor *node = graph.nodes[i];
        if (streaming::only_describes(node->op)) {
            continue; // whoever uses what it describes is looked at
        }
        for (size_t source = 0; source < GGML_MAX_SRC; ++source) {
            const ggml_tensor *root =
                node->src[source] == nullptr ? nullptr : streaming::view_root(node->src[source]);
            if (root == nullptr || root->op != GGML_OP_NONE || directory.find(root->name) == nullptr) {
                continue;
            }
            Uses &known = uses[root->name];
            known.operations.insert(ggml_op_name(node->op));
            known.streamable = known.streamable && is_streamable(node, source);
        }
    }
    return uses;
}

/// Names of the weights that a load took as banks, and as tables.
struct Streamed {
    std::set<std::string, std::less<>> banks;
    std::set<std::string, std::less<>> tables;
};

Streamed streamed_by(const streaming::StreamedStore &store) {
    Streamed names;
    for (const residency::Bank &bank : store.banks()) {
        names.banks.insert(bank.name);
    }
    for (const streaming::TableCandidate &table : store.placement.tables()) {
        if (table.tie == streaming::Tie::None && table.refusal.empty()) {
            names.tables.insert(table.name);
        }
    }
    return names;
}

WeightInfo describe(const gguf::TensorEntry &entry, const UsesByName &uses, const Streamed &streamed) {
    WeightInfo weight{.name = entry.name,
                      .type = ggml_type_name(static_cast<ggml_type>(entry.type)),
                      .shape = entry.shape,
                      .bytes = entry.bytes,
                      .file = entry.shard,
                      .offset = entry.offset,
                      .role = WeightRole::Unused,
                      .operations = {}};
    const auto found = uses.find(entry.name);
    if (found != uses.end()) {
        weight.operations.assign(found->second.operations.begin(), found->second.operations.end());
        weight.role = !found->second.streamable              ? WeightRole::Dense
                      : streamed.banks.contains(entry.name)  ? WeightRole::Experts
                      : streamed.tables.contains(entry.name) ? WeightRole::Rows
                                                             : WeightRole::Dense;
    }
    return weight;
}

void add_experts(const streaming::StreamedStore &store, const gguf::GgufDirectory &directory,
                 ModelInspection &found) {
    const std::vector<residency::Bank> &banks = store.banks();
    for (const residency::Bank &bank : banks) {
        const char *type = ggml_type_name(static_cast<ggml_type>(directory.find(bank.name)->type));
        const auto alike = std::find_if(found.slices.begin(), found.slices.end(), [&](const SliceKind &kind) {
            return kind.type == type && kind.bytes == bank.slice_bytes && kind.experts == bank.expert_count;
        });
        SliceKind &kind =
            alike != found.slices.end()
                ? *alike
                : found.slices.emplace_back(SliceKind{type, bank.slice_bytes, bank.expert_count, 0});
        ++kind.banks;
    }
    std::stable_sort(found.slices.begin(), found.slices.end(),
                     [](const SliceKind &a, const SliceKind &b) { return a.bytes > b.bytes; });
    for (const residency::LayerNeed &need : store.layers()) {
        ExpertLayer &layer = found.layers.emplace_back();
        layer.experts_per_token = need.experts_per_token;
        layer.token_bytes = residency::token_working_set(banks, {need});
        for (const residency::BankId bank : need.banks) {
            layer.experts = std::max<size_t>(layer.experts, banks[bank].expert_count);
            layer.banks.push_back(banks[bank].name);
        }
    }
    found.expert_bytes = store.streamed_bytes();
    found.working_set_bytes = store.token_working_set();
}

Result<ModelInspection> inspect(const ModelOptions &options) {
    auto opened = gguf::GgufDirectory::open(options.path, options.direct, platform::system_files());
    if (!opened) {
        return fail(opened.error());
    }
    const gguf::GgufDirectory &directory = **opened;
    ModelOptions everything{.path = options.path, .stream = StreamMode::Force, .row_stream = true};
    everything.direct = options.direct;
    everything.repack = options.repack;
    // A small context will do: which operation uses a weight does not depend on it.
    const SessionOptions small{.context_tokens = 256, .ubatch_tokens = 16, .threads = 1};
    auto paper = planning::PaperModel::make(everything, small, true, directory);
    if (!paper) {
        return fail(paper.error());
    }
    const ggml_cgraph *graph = llama_graph_reserve(&(*paper)->context(), 1, 1, 1);
    if (graph == nullptr) {
        return fail(ErrorCode::InvalidFormat, fmt::format("cannot lay out a graph for {}", options.path));
    }
    ModelInspection found;
    found.files = directory.shard_paths();
    found.file_bytes = directory.file_bytes();
    found.architecture = directory.header_string("general.architecture").value_or("");
    char text[256] = "";
    llama_model_desc(&(*paper)->model(), text, sizeof(text));
    found.description = text;
    const UsesByName uses = uses_in(*graph, directory);
    const Streamed streamed = streamed_by(*(*paper)->store());
    for (const gguf::TensorEntry &entry : directory.tensors()) {
        found.weights.push_back(describe(entry, uses, streamed));
    }
    add_experts(*(*paper)->store(), directory, found);
    return found;
}

} // namespace

Result<ModelInspection> inspect_model(const ModelOptions &options) {
    try {
        return inspect(options);
    } catch (const std::bad_alloc &) {
        return fail(ErrorCode::OutOfMemory, fmt::format("out of memory while inspecting {}", options.path));
    } catch (const std::exception &error) {
        return fail(ErrorCode::Internal, fmt::format("cannot inspect {}: {}", options.path, error.what()));
    }
}

const char *weight_role_name(WeightRole role) {
    switch (role) {
    case WeightRole::Experts:
        return "experts";
    case WeightRole::Rows:
        return "rows";
    case WeightRole::Unused:
        return "unused";
    case WeightRole::Dense:
        break;
    }
    return "dense";
}

} // namespace sluice
