#include "host_check.h"

#include "host_symbols.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::plugin {

namespace {

constexpr const char *kBuiltFor = SLUICE_GGML_VERSION;

template <typename T, void (*release)(T *)>
struct Releaser {
    void operator()(T *object) const { release(object); }
};
using OwnedContext = std::unique_ptr<ggml_context, Releaser<ggml_context, ggml_free>>;
using OwnedBuffer =
    std::unique_ptr<ggml_backend_buffer, Releaser<ggml_backend_buffer, ggml_backend_buffer_free>>;
using OwnedBackend = std::unique_ptr<ggml_backend, Releaser<ggml_backend, ggml_backend_free>>;

Status differs(const std::string &what) {
    return fail(ErrorCode::Unsupported,
                fmt::format("this plug-in was built for ggml {}, and {}", kBuiltFor, what));
}

Status differs_in(const char *structure) {
    return differs(
        fmt::format("this program's {} is laid out otherwise; build the plug-in from the sources that "
                    "the program was built from",
                    structure));
}

/// The numbers of operations and types are part of what we were built with.
bool same_numbers() {
    return std::string_view(ggml_op_name(GGML_OP_MUL_MAT_ID)) == "MUL_MAT_ID" &&
           std::string_view(ggml_op_name(GGML_OP_GET_ROWS)) == "GET_ROWS" &&
           std::string_view(ggml_op_name(GGML_OP_CUSTOM)) == "CUSTOM" &&
           std::string_view(ggml_type_name(GGML_TYPE_I32)) == "i32" &&
           std::string_view(ggml_type_name(GGML_TYPE_Q4_K)) == "q4_K" &&
           std::string_view(ggml_type_name(GGML_TYPE_MXFP4)) == "mxfp4" &&
           ggml_get_type_traits_cpu(GGML_TYPE_Q4_K)->vec_dot_type == GGML_TYPE_Q8_K;
}

bool same_tensor() {
    constexpr size_t kObjectBytes = 32; // what ggml keeps before each; its struct is not in a header
    if (ggml_tensor_overhead() != GGML_TENSOR_SIZE + kObjectBytes) {
        return false;
    }
    const OwnedContext context(
        ggml_init({.mem_size = ggml_tensor_overhead() * 4, .mem_buffer = nullptr, .no_alloc = true}));
    ggml_tensor *bank = ggml_new_tensor_3d(context.get(), GGML_TYPE_Q8_0, 64, 3, 2);
    ggml_tensor *input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, 64, 1, 5);
    ggml_tensor *ids = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, 5);
    const ggml_tensor *product = ggml_mul_mat_id(context.get(), bank, input, ids);
    ggml_set_name(bank, "bank");
    return std::strcmp(bank->name, "bank") == 0 && bank->ne[2] == 2 && bank->nb[2] == 3 * bank->nb[1] &&
           product->op == GGML_OP_MUL_MAT_ID && product->src[0] == bank && product->src[2] == ids &&
           product->data == nullptr && product->ne[2] == 5;
}

bool same_graph() {
    const OwnedContext context(ggml_init({.mem_size = ggml_tensor_overhead() * 2 + ggml_graph_overhead(),
                                          .mem_buffer = nullptr,
                                          .no_alloc = true}));
    ggml_cgraph *graph = ggml_new_graph(context.get());
    ggml_tensor *leaf = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 4, 4);
    ggml_tensor *node = ggml_dup_tensor(context.get(), leaf);
    node->op = GGML_OP_CONT;
    node->src[0] = leaf;
    ggml_build_forward_expand(graph, node);
    return graph->size == ggml_graph_size(graph) && graph->n_nodes == 1 && graph->n_leafs == 1 &&
           ggml_graph_n_nodes(graph) == 1 && graph->nodes == ggml_graph_nodes(graph) &&
           graph->nodes[0] == node && graph->leafs[0] == leaf &&
           graph->order == GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT && graph->uid == 0;
}

bool same_buffer(ggml_backend_dev_t cpu) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(cpu);
    const OwnedBuffer buffer(ggml_backend_buft_alloc_buffer(type, 64));
    return buffer != nullptr && type->device == ggml_backend_buft_get_device(type) &&
           buffer->buft == ggml_backend_buffer_get_type(buffer.get()) &&
           buffer->size == ggml_backend_buffer_get_size(buffer.get()) &&
           buffer->usage == ggml_backend_buffer_get_usage(buffer.get());
}

bool same_backend(ggml_backend_dev_t cpu) {
    const OwnedBackend backend(ggml_backend_dev_init(cpu, nullptr));
    return backend != nullptr && backend->guid == ggml_backend_guid(backend.get()) &&
           backend->device == ggml_backend_get_device(backend.get());
}

Status check_structs(ggml_backend_dev_t cpu) {
    ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(cpu);
    if (registry->api_version != GGML_BACKEND_API_VERSION) {
        return differs(
            fmt::format("for version {} of its interface for backends; this program has version {}",
                        GGML_BACKEND_API_VERSION, registry->api_version));
    }
    if (cpu->reg != registry) {
        return differs_in("device struct");
    }
    if (!same_numbers()) {
        return differs("this program's operations or types have other numbers");
    }
    const struct {
        const char *name;
        bool same;
    } structs[] = {{"tensor struct", same_tensor()},
                   {"graph struct", same_graph()},
                   {"buffer struct", same_buffer(cpu)},
                   {"backend struct", same_backend(cpu)}};
    for (const auto &one : structs) {
        if (!one.same) {
            return differs_in(one.name);
        }
    }
    return {};
}

} // namespace

Status check_host(const void *caller) {
    HostLibraries libraries{.registry = library_of(caller)};
    bind_host_symbols(libraries);
    if (host_symbol("ggml_version") == nullptr) {
        return differs("this program's ggml does not say which version it is");
    }
    if (std::strcmp(ggml_version(), kBuiltFor) != 0) {
        return differs(fmt::format("this program has ggml {}", ggml_version()));
    }
    if (host_symbol("ggml_backend_dev_by_type") == nullptr) {
        return differs("this program has no registry of backends");
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == nullptr) {
        return differs("this program has loaded no CPU backend before it");
    }
    libraries.cpu = library_of(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_set_n_threads"));
    bind_host_symbols(libraries);
    if (const std::string missing = missing_host_symbol(); !missing.empty()) {
        return differs(fmt::format("this program's ggml does not let others call {}", missing));
    }
    return check_structs(cpu);
}

} // namespace sluice::plugin
