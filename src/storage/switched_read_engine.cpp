#include "storage/switched_read_engine.h"

#include <algorithm>
#include <utility>

namespace sluice::storage {

namespace {

/// Of a ring, which does not grow, room for every width that may be tried; a wish beyond that, or one that
/// will be refused, stays as it is. A pool starts with the threads it needs.
int capacity_for(int width) {
    return width < 1 ? width : std::max(width, SwitchedReadEngine::kMostWidth);
}

} // namespace

Result<std::unique_ptr<SwitchedReadEngine>> SwitchedReadEngine::create(const ReadEngineWish &wish,
                                                                       std::string &note) {
    auto made = make_read_engine({.kind = wish.kind, .depth = capacity_for(wish.depth), .lanes = wish.lanes});
    if (!made) {
        return fail(made.error());
    }
    note = made->note;
    std::unique_ptr<SwitchedReadEngine> engine(new SwitchedReadEngine());
    engine->adopt(made->kind, std::move(made->engine));
    if (auto selected = engine->select(
            {.kind = made->kind, .width = made->kind == ReadEngineKind::Uring ? wish.depth : wish.lanes});
        !selected) {
        return fail(selected.error());
    }
    return engine;
}

void SwitchedReadEngine::adopt(ReadEngineKind kind, std::unique_ptr<IReadEngine> engine) {
    (kind == ReadEngineKind::Uring ? counted_uring_ : counted_threads_).store(engine.get());
    engine_of(kind) = std::move(engine);
}

std::unique_ptr<IReadEngine> &SwitchedReadEngine::engine_of(ReadEngineKind kind) {
    return kind == ReadEngineKind::Uring ? uring_ : threads_;
}

Status SwitchedReadEngine::select(const ReadSetting &setting) {
    if (engine_of(setting.kind) == nullptr) {
        auto made = setting.kind == ReadEngineKind::Uring
                        ? make_uring_read_engine(capacity_for(setting.width))
                        : make_thread_read_engine(setting.width);
        if (!made) {
            return fail(made.error());
        }
        adopt(setting.kind, std::move(*made));
    }
    IReadEngine *engine = engine_of(setting.kind).get();
    engine->set_width(setting.width);
    selected_.store(engine);
    setting_ = setting;
    return {};
}

void SwitchedReadEngine::submit(std::span<ReadRequest> requests) {
    selected_.load()->submit(requests);
}

void SwitchedReadEngine::set_width(int width) {
    setting_.width = width;
    selected_.load()->set_width(width);
}

ReadCounters SwitchedReadEngine::counters() const {
    ReadCounters sum;
    for (const IReadEngine *engine : {counted_uring_.load(), counted_threads_.load()}) {
        if (engine != nullptr) {
            sum += engine->counters();
        }
    }
    return sum;
}

} // namespace sluice::storage
