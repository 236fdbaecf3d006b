// Which read engine it is going to be.
#include "storage/read_engine.h"

#include <fmt/format.h>
#include <utility>

namespace sluice::storage {
namespace {

Result<ChosenReadEngine> choose_threads(int lanes) {
    Result<std::unique_ptr<IReadEngine>> engine = make_thread_read_engine(lanes);
    if (!engine) {
        return fail(engine.error());
    }
    return ChosenReadEngine{.engine = std::move(*engine),
                            .kind = ReadEngineKind::Threads,
                            .name = setting_name({ReadEngineKind::Threads, lanes}),
                            .note = {}};
}

} // namespace

std::string setting_name(const ReadSetting &setting) {
    if (setting.kind == ReadEngineKind::Uring) {
        return fmt::format("io_uring, {} {} in flight", setting.width, setting.width == 1 ? "read" : "reads");
    }
    return setting.width == 1 ? "1 reader thread" : fmt::format("{} reader threads", setting.width);
}

Result<ChosenReadEngine> make_read_engine(const ReadEngineWish &wish) {
    if (wish.kind == ReadEngineKind::Threads) {
        return choose_threads(wish.lanes);
    }
    Result<std::unique_ptr<IReadEngine>> engine = make_uring_read_engine(wish.depth);
    if (engine) {
        return ChosenReadEngine{.engine = std::move(*engine),
                                .kind = ReadEngineKind::Uring,
                                .name = setting_name({ReadEngineKind::Uring, wish.depth}),
                                .note = {}};
    }
    if (engine.error().code == ErrorCode::InvalidArgument) {
        return fail(engine.error());
    }
    Result<ChosenReadEngine> threads = choose_threads(wish.lanes);
    if (threads && wish.kind == ReadEngineKind::Uring) {
        threads->note = fmt::format("threads read instead of io_uring: {}", engine.error().message);
    }
    return threads;
}

#ifndef SLUICE_HAVE_IO_URING
Result<std::unique_ptr<IReadEngine>> make_uring_read_engine(int /*depth*/) {
    return fail(ErrorCode::Unsupported, "this build has no io_uring");
}
#endif

} // namespace sluice::storage
