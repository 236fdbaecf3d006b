// How quickly a prompt's rows come from storage: every ubatch asks for rows that were not read before. Prints
// one JSON object.
//
//   row_prefill MODEL CACHE_MIB THREADS UBATCHES

#include "bench_prompt.h"

#include "session/model.h"
#include "session/session.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace {

constexpr uint32_t kUbatch = 512;

int failed(const sluice::Error &error) {
    std::fprintf(stderr, "row_prefill: %s\n", error.message.c_str());
    return 1;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: row_prefill MODEL CACHE_MIB THREADS UBATCHES\n");
        return 2;
    }
    auto model = sluice::Model::load({.path = argv[1],
                                      .stream = sluice::StreamMode::Force,
                                      .cache_bytes = std::strtoull(argv[2], nullptr, 10) << 20U,
                                      .row_stream = true});
    if (!model) {
        return failed(model.error());
    }
    const int ubatches = std::atoi(argv[4]);
    auto session =
        sluice::Session::create(*model, {.context_tokens = kUbatch * static_cast<uint32_t>(ubatches),
                                         .ubatch_tokens = kUbatch,
                                         .threads = std::atoi(argv[3])});
    if (!session) {
        return failed(session.error());
    }
    const auto prompt =
        sluice::bench::prompt_tokens(size_t{kUbatch} * static_cast<size_t>(ubatches), session->vocab_size());
    if (auto decoded = session->decode(prompt); !decoded) {
        return failed(decoded.error());
    }
    const sluice::RunStats stats = session->stats();
    const double mib = static_cast<double>(stats.rows.bytes_read) / 1048576.0;
    nlohmann::json result;
    result["rows"] = stats.rows.rows;
    result["reads"] = stats.rows.reads;
    result["read_mib"] = mib;
    result["busy_s"] = stats.rows.busy_seconds;
    result["stall_s"] = stats.rows.stall_seconds;
    result["mib_per_s"] = mib / stats.rows.busy_seconds;
    result["peak_bytes"] = sluice::bench::peak_resident_bytes();
    std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
    std::_Exit(0); // freeing gigabytes is not what is measured
}
