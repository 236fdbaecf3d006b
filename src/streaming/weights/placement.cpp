#include "streaming/weights/placement.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <algorithm>

namespace sluice::streaming {

ggml_tensor *weight_of(const ggml_tensor *op) {
    for (ggml_tensor *source : op->src) {
        if (source != nullptr && source->buffer != nullptr) {
            return source;
        }
    }
    return nullptr;
}

ggml_backend_buffer_type_t repacking_type(const ggml_tensor *op) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == nullptr) {
        return nullptr;
    }
    const auto extra_types =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
    if (extra_types == nullptr) {
        return nullptr;
    }
    ggml_tensor *weight = weight_of(op);
    ggml_backend_buffer_t ours = weight->buffer;
    ggml_backend_buffer_type_t taken = nullptr;
    for (ggml_backend_buffer_type_t *type = extra_types(cpu);
         type != nullptr && *type != nullptr && taken == nullptr; ++type) {
        // As the loader asks: with an empty buffer of that type behind the weight.
        weight->buffer = ggml_backend_buft_alloc_buffer(*type, 0);
        taken = ggml_backend_dev_supports_op(cpu, op) ? *type : nullptr;
        ggml_backend_buffer_free(weight->buffer);
    }
    weight->buffer = ours;
    return taken;
}

bool Placement::wants(const ggml_tensor *op) {
    const ggml_tensor *weight = weight_of(op);
    if (weight == nullptr) {
        return false;
    }
    if (op->op == GGML_OP_MUL_MAT_ID && wants_bank(weight)) {
        roles_.insert_or_assign(weight->name, Role::Experts);
        return true;
    }
    if (op->op == GGML_OP_GET_ROWS && options_.rows) {
        return wants_table(weight);
    }
    return wants_dense(op, weight);
}

const Role *Placement::role_of(const ggml_tensor *weight) const {
    const auto found = roles_.find(weight->name);
    return found == roles_.end() ? nullptr : &found->second;
}

const gguf::TensorEntry *Placement::entry_of(const ggml_tensor *weight) const {
    const gguf::TensorEntry *entry = directory_.find(weight->name);
    const bool same = entry != nullptr && entry->type == weight->type &&
                      entry->bytes == ggml_nbytes(weight) && ggml_is_contiguous(weight) &&
                      std::equal(entry->shape.begin(), entry->shape.end(), weight->ne);
    return same ? entry : nullptr;
}

bool Placement::wants_bank(const ggml_tensor *weight) const {
    return entry_of(weight) != nullptr && weight->ne[2] > 1 && weight->ne[3] == 1 &&
           ggml_get_type_traits_cpu(weight->type)->vec_dot != nullptr;
}

bool Placement::wants_table(const ggml_tensor *weight) {
    if (table_called(weight->name) == nullptr) {
        tables_.push_back({.name = weight->name,
                           .bytes = ggml_nbytes(weight),
                           .refusal = entry_of(weight) == nullptr
                                          ? "its shape in the model is not the one in the file"
                                          : ""});
    }
    if (entry_of(weight) == nullptr) {
        return false;
    }
    // The head may have been asked about first. Mapped, the two are one; elsewhere, it stays beside the rows.
    const Role *known = role_of(weight);
    if (known != nullptr && *known == Role::Dense) {
        table_called(weight->name)->tie = Tie::OneTensor;
        return true;
    }
    if (left_dense_.contains(weight->name)) {
        table_called(weight->name)->tie = Tie::Beside;
    }
    roles_.insert_or_assign(weight->name, Role::Rows);
    return true;
}

bool Placement::wants_dense(const ggml_tensor *op, const ggml_tensor *weight) {
    TableCandidate *table = table_called(weight->name);
    const bool repacked = options_.repack && repacking_type(op) != nullptr;
    if (table != nullptr) {
        table->tie = repacked ? Tie::Beside : Tie::OneTensor;
    }
    if (repacked || entry_of(weight) == nullptr || (table == nullptr && !options_.map_dense)) {
        load_transient_bytes_ =
            std::max<uint64_t>(load_transient_bytes_, ggml_nbytes(weight) * (repacked ? 2 : 1));
        left_dense_.insert(weight->name);
        return false;
    }
    roles_.insert_or_assign(weight->name, Role::Dense);
    return true;
}

TableCandidate *Placement::table_called(const std::string &name) {
    const auto found = std::find_if(tables_.begin(), tables_.end(),
                                    [&name](const auto &table) { return table.name == name; });
    return found == tables_.end() ? nullptr : &*found;
}

} // namespace sluice::streaming
