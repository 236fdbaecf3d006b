#include "streaming/device/streaming_device.h"

#include "streaming/device/intercepted_backend.h"
#include "streaming/weights/load_target.h"
#include "streaming/weights/streamed_buffer.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <exception>
#include <mutex>

namespace sluice::streaming {

namespace {

// Part of the registration: ggml's callbacks carry no argument that says which context is made.
thread_local ContextScope *context_scope = nullptr;

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

/// Asked by the loader, once per weight, with a dummy operation on it: does this weight go to our buffer?
bool device_supports_op(ggml_backend_dev_t, const ggml_tensor *op) {
    const ggml_tensor *weight = weight_of(op);
    if (weight == nullptr || !is_streamed_type(weight->buffer->buft)) {
        return false;
    }
    try {
        StreamedStore *store = offered_to(weight);
        return store != nullptr && store->placement.wants(op);
    } catch (const std::exception &error) {
        GGML_LOG_ERROR("sluice: %s\n", error.what());
        return false;
    }
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
    end_found_load(); // a context is made of a model that is loaded
    ggml_backend_t backend = make_intercepted_backend();
    if (backend != nullptr && context_scope != nullptr) {
        context_scope->backends_.push_back(backend);
    }
    return backend;
}

ggml_backend_reg_t streaming_registry() {
    Registration &r = registration();
    static std::once_flag once;
    std::call_once(once, [&r] {
        describe_buffer_type(r.buffer_type, &r.device);
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
    });
    return &r.reg;
}

void register_device() {
    static std::once_flag once;
    std::call_once(once, [] { ggml_backend_register(streaming_registry()); });
}

ggml_backend_buffer_type_t streamed_buffer_type() {
    return &registration().buffer_type;
}

ContextScope::ContextScope() {
    context_scope = this;
}

ContextScope::~ContextScope() {
    context_scope = nullptr;
}

} // namespace sluice::streaming
