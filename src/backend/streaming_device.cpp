#include "backend/streaming_device.h"

#include "backend/intercepted_backend.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <cstdio>
#include <memory>
#include <mutex>

namespace sluice::backend {

namespace {

// Part of the registration: ggml's callbacks carry no argument that says which load is running.
thread_local StreamedStore *loading_store = nullptr;
thread_local ContextScope *context_scope = nullptr;

/// What a streamed buffer owns. `store` is null for the empty buffers that the loader only asks questions
/// with.
struct StreamedBuffer {
    StreamedStore *store = nullptr;
    storage::ReservedMemory memory;
};

StreamedBuffer &context_of(ggml_backend_buffer_t buffer) {
    return *static_cast<StreamedBuffer *>(buffer->context);
}

const char *device_name(ggml_backend_dev_t) {
    return "Sluice";
}

const char *device_description(ggml_backend_dev_t) {
    return "weights streamed from storage, computed on the CPU";
}

void device_memory(ggml_backend_dev_t, size_t *free, size_t *total) {
    *free = 0;
    *total = 0;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

void device_props(ggml_backend_dev_t device, ggml_backend_dev_props *props) {
    *props = {};
    props->name = device_name(device);
    props->description = device_description(device);
    props->type = device_type(device);
}

const char *buffer_type_name(ggml_backend_buffer_type_t) {
    return "Sluice";
}

/// Weights start at whole slabs, so that pages can be given back and files mapped, whatever the page size.
size_t buffer_type_alignment(ggml_backend_buffer_type_t) {
    return residency::slab_bytes();
}

size_t buffer_type_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor *tensor) {
    return StreamedStore::reserved_bytes(tensor);
}

bool buffer_type_is_host(ggml_backend_buffer_type_t) {
    return true;
}

void free_buffer(ggml_backend_buffer_t buffer) {
    const std::unique_ptr<StreamedBuffer> context(&context_of(buffer));
    if (context->store != nullptr) {
        context->store->abandon(context->memory.bytes().data(), context->memory.bytes().size());
    }
}

void *buffer_base(ggml_backend_buffer_t buffer) {
    std::byte *base = context_of(buffer).memory.bytes().data();
    const size_t slab = residency::slab_bytes();
    const size_t over = reinterpret_cast<uintptr_t>(base) % slab;
    return base + (over == 0 ? 0 : slab - over);
}

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor) {
    if (tensor->view_src != nullptr) {
        return GGML_STATUS_SUCCESS;
    }
    StreamedStore *store = context_of(buffer).store;
    try {
        const Status adopted =
            store != nullptr ? store->adopt(tensor) : fail(ErrorCode::Internal, "the buffer has no store");
        if (!adopted) {
            GGML_LOG_ERROR("%s: %s\n", __func__, adopted.error().message.c_str());
        }
        return adopted ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
    } catch (const std::exception &) {
        return GGML_STATUS_ALLOC_FAILED;
    }
}

void set_tensor(ggml_backend_buffer_t, ggml_tensor *tensor, const void *, size_t, size_t) {
    std::fprintf(stderr,
                 "sluice: %s is streamed from its file and cannot be overwritten; the write is ignored\n",
                 tensor->name);
}

void get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data, size_t offset,
                size_t size) {
    StreamedStore *store = context_of(buffer).store;
    const StreamedTensor *weight = store == nullptr ? nullptr : store->find(tensor);
    if (weight == nullptr) {
        return;
    }
    // A view starts somewhere inside its weight.
    const auto start = static_cast<size_t>(static_cast<const char *>(tensor->data) -
                                           static_cast<const char *>(weight->tensor->data));
    if (auto read = store->read_weight(*weight, start + offset, {static_cast<std::byte *>(data), size});
        !read) {
        std::fprintf(stderr, "sluice: %s\n", read.error().message.c_str());
    }
}

void clear_buffer(ggml_backend_buffer_t, uint8_t) {
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    try {
        auto context = std::make_unique<StreamedBuffer>();
        // Something even for nothing: ggml insists on a base address, and on one that is aligned.
        auto memory =
            storage::ReservedMemory::reserve(size + residency::slab_bytes(), storage::MemoryUse::Reserved);
        if (!memory) {
            // The loader turns this into an exception of its own; the log keeps the reason.
            GGML_LOG_ERROR("%s: %s\n", __func__, memory.error().message.c_str());
            return nullptr;
        }
        context->memory = std::move(*memory);
        context->store = size == 0 ? nullptr : loading_store;
        ggml_backend_buffer_i interface {};
        interface.free_buffer = free_buffer;
        interface.get_base = buffer_base;
        interface.init_tensor = init_tensor;
        interface.set_tensor = set_tensor;
        interface.get_tensor = get_tensor;
        interface.clear = clear_buffer;
        return ggml_backend_buffer_init(type, interface, context.release(), size);
    } catch (const std::exception &) {
        return nullptr;
    }
}

/// The registration: one device, one buffer type, alive as long as the process.
struct Registration {
    ggml_backend_reg reg{};
    ggml_backend_device device{};
    ggml_backend_buffer_type buffer_type{};
};

Registration &registration() {
    static Registration instance;
    return instance;
}

bool is_streamed_type(ggml_backend_buffer_type_t type) {
    return type == &registration().buffer_type;
}

/// Asked by the loader, once per weight, with a dummy operation on it: does this weight go to our buffer?
bool device_supports_op(ggml_backend_dev_t, const ggml_tensor *op) {
    const ggml_tensor *weight = loading_store != nullptr ? weight_of(op) : nullptr;
    return weight != nullptr && is_streamed_type(weight->buffer->buft) && loading_store->placement.wants(op);
}

bool device_supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return is_streamed_type(type) || ggml_backend_buft_is_host(type);
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) {
    return &registration().buffer_type;
}

const char *reg_name(ggml_backend_reg_t) {
    return "Sluice";
}

size_t reg_device_count(ggml_backend_reg_t) {
    return 1;
}

ggml_backend_dev_t reg_device(ggml_backend_reg_t, size_t) {
    return &registration().device;
}

void *reg_proc_address(ggml_backend_reg_t, const char *) {
    return nullptr;
}

} // namespace

ggml_backend_t init_backend(ggml_backend_dev_t, const char *) {
    ggml_backend_t backend = make_intercepted_backend();
    if (backend != nullptr && context_scope != nullptr) {
        context_scope->backends_.push_back(backend);
    }
    return backend;
}

void register_device() {
    static std::once_flag once;
    std::call_once(once, [] {
        Registration &r = registration();
        r.buffer_type.iface.get_name = buffer_type_name;
        r.buffer_type.iface.alloc_buffer = alloc_buffer;
        r.buffer_type.iface.get_alignment = buffer_type_alignment;
        r.buffer_type.iface.get_alloc_size = buffer_type_alloc_size;
        r.buffer_type.iface.is_host = buffer_type_is_host;
        r.buffer_type.device = &r.device;
        r.device.iface.get_name = device_name;
        r.device.iface.get_description = device_description;
        r.device.iface.get_memory = device_memory;
        r.device.iface.get_type = device_type;
        r.device.iface.get_props = device_props;
        r.device.iface.init_backend = init_backend;
        r.device.iface.get_buffer_type = device_buffer_type;
        r.device.iface.supports_op = device_supports_op;
        r.device.iface.supports_buft = device_supports_buffer_type;
        r.device.reg = &r.reg;
        r.reg.api_version = GGML_BACKEND_API_VERSION;
        r.reg.iface.get_name = reg_name;
        r.reg.iface.get_device_count = reg_device_count;
        r.reg.iface.get_device = reg_device;
        r.reg.iface.get_proc_address = reg_proc_address;
        ggml_backend_register(&r.reg);
    });
}

ggml_backend_buffer_type_t streamed_buffer_type() {
    return &registration().buffer_type;
}

StreamedStore *store_of(const ggml_tensor *tensor) {
    const ggml_tensor *root = view_root(tensor);
    if (root->buffer == nullptr || !is_streamed_type(root->buffer->buft)) {
        return nullptr;
    }
    // A load without allocation leaves empty buffers behind: the store is the one that is being tried out.
    return root->buffer->context != nullptr ? context_of(root->buffer).store : loading_store;
}

LoadScope::LoadScope(StreamedStore &store) : store_(store) {
    loading_store = &store;
}

LoadScope::~LoadScope() {
    loading_store = nullptr;
    store_.loading_ended();
}

ContextScope::ContextScope() {
    context_scope = this;
}

ContextScope::~ContextScope() {
    context_scope = nullptr;
}

} // namespace sluice::backend
