#include "streaming/weights/streamed_buffer.h"

#include "platform/guarded_memory.h"
#include "streaming/weights/load_target.h"

#include "ggml-impl.h"

#include <algorithm>
#include <memory>

namespace sluice::streaming {

namespace {

struct StreamedBuffer {
    StreamedStore *store = nullptr;
    std::shared_ptr<StreamedStore> owner; ///< null where somebody else keeps the store
    platform::ReservedMemory memory;
    platform::GuardedMemory guard; ///< tells what was touched when nothing had been fetched
};

StreamedBuffer &context_of(ggml_backend_buffer_t buffer) {
    return *static_cast<StreamedBuffer *>(buffer->context);
}

const char *get_name(ggml_backend_buffer_type_t) {
    return "Sluice";
}

/// Weights start at whole slabs, so that pages can be given back and files mapped, whatever the page size.
size_t get_alignment(ggml_backend_buffer_type_t) {
    return residency::slab_bytes();
}

size_t get_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor *tensor) {
    return StreamedStore::reserved_bytes(tensor);
}

bool is_host(ggml_backend_buffer_type_t) {
    return true;
}

void free_buffer(ggml_backend_buffer_t buffer) {
    const std::unique_ptr<StreamedBuffer> context(&context_of(buffer));
    if (context->store != nullptr) {
        context->store->abandon(context->memory.bytes().data(), context->memory.bytes().size());
    }
}

void *get_base(ggml_backend_buffer_t buffer) {
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

/// The weight that `tensor` is or is a view of, and where in it byte `offset` of `tensor` is.
struct Place {
    StreamedTensor *weight = nullptr;
    size_t offset = 0;
};

Place place_of(StreamedStore &store, const ggml_tensor *tensor, size_t offset) {
    StreamedTensor *weight = store.find(tensor);
    if (weight == nullptr) {
        return {};
    }
    const auto start = static_cast<size_t>(static_cast<const char *>(tensor->data) -
                                           static_cast<const char *>(weight->tensor->data));
    return {weight, start + offset};
}

/// ggml's calls have no way to return an error: the log has it, and the model's last one is it.
void report(StreamedStore &store, const Error &error) {
    GGML_LOG_ERROR("sluice: %s\n", error.message.c_str());
    store.note_last_error(error);
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor, const void *data, size_t offset,
                size_t size) {
    StreamedStore &store = *context_of(buffer).store;
    const auto [weight, start] = place_of(store, tensor, offset);
    const std::span<const std::byte> bytes{static_cast<const std::byte *>(data), size};
    const Status written = weight == nullptr ? fail(ErrorCode::Internal, "it is not known to its store")
                                             : store.overwrite(*weight, start, bytes);
    if (!written) {
        report(store, written.error().with_context(std::string("cannot write to ") + tensor->name));
    }
}

void get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data, size_t offset,
                size_t size) {
    StreamedStore &store = *context_of(buffer).store;
    const auto [weight, start] = place_of(store, tensor, offset);
    const std::span<std::byte> into{static_cast<std::byte *>(data), size};
    const Status read = weight == nullptr ? fail(ErrorCode::Internal, "it is not known to its store")
                                          : store.read_weight(*weight, start, into);
    if (!read) {
        // Not a number in every floating type: whoever goes on all the same does not compute on old bytes.
        std::fill(into.begin(), into.end(), std::byte{0xFF});
        report(store, read.error().with_context(std::string("cannot read ") + tensor->name));
    }
}

void clear(ggml_backend_buffer_t, uint8_t) {
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    try {
        auto context = std::make_unique<StreamedBuffer>();
        // Something even for nothing: ggml insists on a base address, and on one that is aligned.
        auto memory =
            platform::ReservedMemory::reserve(size + residency::slab_bytes(), platform::MemoryUse::Closed);
        if (!memory) {
            // The loader turns this into an exception of its own; the log keeps the reason.
            GGML_LOG_ERROR("%s: %s\n", __func__, memory.error().message.c_str());
            return nullptr;
        }
        context->memory = std::move(*memory);
        if (size > 0) {
            context->store = loading_store(context->owner);
            context->guard = platform::GuardedMemory(context->memory.bytes());
        }
        ggml_backend_buffer_i interface {};
        interface.free_buffer = free_buffer;
        interface.get_base = get_base;
        interface.init_tensor = init_tensor;
        interface.set_tensor = set_tensor;
        interface.get_tensor = get_tensor;
        interface.clear = clear;
        return ggml_backend_buffer_init(type, interface, context.release(), size);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

} // namespace

void describe_buffer_type(ggml_backend_buffer_type &type, ggml_backend_dev_t device) {
    type.iface = {};
    type.iface.get_name = get_name;
    type.iface.alloc_buffer = alloc_buffer;
    type.iface.get_alignment = get_alignment;
    type.iface.get_alloc_size = get_alloc_size;
    type.iface.is_host = is_host;
    type.device = device;
}

bool is_streamed_type(ggml_backend_buffer_type_t type) {
    return type->iface.get_name == get_name;
}

StreamedStore *store_of(const ggml_tensor *tensor) {
    const ggml_tensor *root = view_root(tensor);
    if (root->buffer == nullptr || !is_streamed_type(root->buffer->buft)) {
        return nullptr;
    }
    // A load without allocation leaves empty buffers behind: the store is the one that is being tried out.
    return root->buffer->context != nullptr ? context_of(root->buffer).store : store_on_paper();
}

} // namespace sluice::streaming
