// Whom a load that llama.cpp does on this thread is for: the store that its weights are offered to.
//
// Our own loader says so (LoadScope). Other loads are anybody's: a server's, a plug-in's host's. For those
// the thread asks a source, which knows the files that are to be streamed, when the first weight is asked
// about.
#pragma once

#include "platform/open_files.h"
#include "streaming/weights/streamed_store.h"

#include "ggml.h"

#include <memory>

namespace sluice::streaming {

/// The store for a load, and the open file that shows that the load goes on.
struct FoundLoad {
    std::shared_ptr<StreamedStore> store; ///< null: what is loaded is not to be streamed
    platform::OpenFile file = {};
};

/// Knows which files are to be streamed. Thread-safe; outlives every load.
class ILoadSource {
public:
    virtual ~ILoadSource() = default;

    /// The load that the calling thread does now, of a model that `weight` is part of.
    virtual FoundLoad find(const ggml_tensor *weight) = 0;

    /// The weights of a store that find() gave are about to get memory: it is no load on paper.
    virtual void will_load(const StreamedStore &) {}
};

/// Who is asked about loads that no LoadScope is for; null: nobody, and they are not streamed. Set once,
/// before such a load.
void set_load_source(ILoadSource *source);

/// The store that this thread's load offers `weight` to; null: it is not streamed.
StreamedStore *offered_to(const ggml_tensor *weight);

/// The store of this thread's load, for a buffer that is being allocated: the buffer then keeps it alive, if
/// `owner` is not null.
StreamedStore *loading_store(std::shared_ptr<StreamedStore> &owner);

/// The store that a load on paper tries out on this thread; null if there is none.
StreamedStore *store_on_paper();

/// A load of this thread that no LoadScope is for has ended, if one went on: names are put back.
void end_found_load();

/// While it lives, weights loaded by this thread are offered to `store`, or to nobody if that is null. On
/// destruction StreamedStore::loading_ended(): so it ends while the model that was loaded is there, or after
/// all of a model that was not. One around a load without allocation ends before the model: nothing tells the
/// store that such a model's tensors go. Scopes on one thread do not nest.
class LoadScope {
public:
    explicit LoadScope(StreamedStore *store);
    ~LoadScope();
    LoadScope(const LoadScope &) = delete;
    LoadScope &operator=(const LoadScope &) = delete;

private:
    StreamedStore *store_;
};

} // namespace sluice::streaming
