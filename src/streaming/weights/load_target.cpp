#include "streaming/weights/load_target.h"

#include <atomic>
#include <utility>

namespace sluice::streaming {

namespace {

// Part of the registration: ggml's callbacks carry no argument that says which load is running.
std::atomic<ILoadSource *> load_source{nullptr};

/// A load of this thread, from the first weight that is asked about to the first context, or the next load.
struct ThreadLoad {
    bool scoped = false;
    StreamedStore *in_scope = nullptr;
    FoundLoad found; ///< empty once its weights have memory: the next question is another load's
    std::weak_ptr<StreamedStore> allocated; ///< its weights have memory, their names may still be hidden
};
thread_local ThreadLoad thread_load;

bool goes_on(const FoundLoad &found) {
    return found.store != nullptr && platform::key_of(found.file.descriptor) == found.file.key;
}

} // namespace

void set_load_source(ILoadSource *source) {
    load_source = source;
}

StreamedStore *offered_to(const ggml_tensor *weight) {
    ThreadLoad &load = thread_load;
    if (load.scoped) {
        return load.in_scope;
    }
    ILoadSource *source = load_source;
    if (source == nullptr) {
        return nullptr;
    }
    if (!goes_on(load.found)) {
        end_found_load();
        load.found = source->find(weight);
    }
    return load.found.store.get();
}

StreamedStore *loading_store(std::shared_ptr<StreamedStore> &owner) {
    ThreadLoad &load = thread_load;
    if (load.scoped) {
        return load.in_scope;
    }
    if (load.found.store != nullptr) {
        owner = std::exchange(load.found, {}).store;
        load_source.load()->will_load(*owner);
    } else {
        owner = load.allocated.lock();
    }
    load.allocated = owner;
    return owner.get();
}

StreamedStore *store_on_paper() {
    return thread_load.in_scope;
}

void end_found_load() {
    ThreadLoad &load = thread_load;
    if (load.scoped) {
        return;
    }
    if (const auto store = load.allocated.lock()) {
        store->loading_ended();
    }
    load = {};
}

LoadScope::LoadScope(StreamedStore *store) : store_(store) {
    end_found_load();
    thread_load.scoped = true;
    thread_load.in_scope = store;
}

LoadScope::~LoadScope() {
    thread_load = {};
    if (store_ != nullptr) {
        store_->loading_ended();
    }
}

} // namespace sluice::streaming
