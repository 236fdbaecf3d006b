// Sluice, decoding one token at a time. Prints one JSON object.
//
//   sluice_decode MODEL CACHE_MIB THREADS PROMPT_TOKENS TOKENS LAYOUT
//
// LAYOUT: repack or no-repack, then "+rows" for row streaming, "+mmap" for mapped dense weights, "+csv" for
// writing what each token took to a table in the temporary directory, "+uringN" and "+threadsN" for reading
// experts with N reads in flight or by N threads, "+look" for lookahead on trial and "+lookN" for N experts
// (else off), "+nooverlap" for graphs in llama.cpp's order, "+repackexperts" for experts in the layout of
// ggml's fastest kernels,
// "+routes:FILE" (at the end) for experts as a trace of another model has them, layer for layer.

#include "bench_prompt.h"

#include "residency/route_sink.h"
#include "session/model.h"
#include "session/session.h"
#include "telemetry/csv_writer.h"
#include "telemetry/route_trace.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Decodes a trace's tokens over and over; prompts are left to the router.
class TraceRoutes final : public sluice::IRouteSource {
public:
    explicit TraceRoutes(sluice::telemetry::RouteTrace trace) : layers_(trace.layers) {
        for (sluice::telemetry::RouteDecision &decision : trace.decisions) {
            if (!decision.prefill) {
                decisions_[decision.layer].push_back(std::move(decision.tokens.front()));
            }
        }
    }

    void choose(uint32_t layer, std::span<int32_t> experts) override {
        token_ += layer == 0 ? 1 : 0;
        const auto &tokens = decisions_[layer % layers_];
        const std::vector<uint32_t> &chosen = tokens[token_ % tokens.size()];
        for (size_t i = 0; i < experts.size(); ++i) {
            // A model that uses more than the trace has takes those of the tokens before, too.
            const auto &source =
                i < chosen.size() ? chosen : tokens[(token_ + tokens.size() - 1) % tokens.size()];
            experts[i] = static_cast<int32_t>(source[i % source.size()]);
            while (std::find(experts.begin(), experts.begin() + static_cast<std::ptrdiff_t>(i), experts[i]) !=
                   experts.begin() + static_cast<std::ptrdiff_t>(i)) {
                experts[i] = (experts[i] + 1) % 128;
            }
        }
    }

private:
    const uint32_t layers_;
    std::map<uint32_t, std::vector<std::vector<uint32_t>>> decisions_; ///< by layer, then token
    size_t token_ = 0;
};

/// The source that LAYOUT names, if it names one.
std::unique_ptr<TraceRoutes> routes_of(const std::string &layout) {
    const std::string word = "+routes:";
    const size_t at = layout.find(word);
    if (at == std::string::npos) {
        return nullptr;
    }
    const std::string path = layout.substr(at + word.size());
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    auto trace = sluice::telemetry::parse_route_trace(text.str(), path);
    if (!trace) {
        throw std::runtime_error(trace.error().message);
    }
    return std::make_unique<TraceRoutes>(std::move(*trace));
}

/// The number behind `word` in `layout`, if the word is there.
std::optional<int> number_after(const std::string &layout, const std::string &word) {
    const size_t at = layout.find(word);
    return at == std::string::npos ? std::nullopt
                                   : std::optional(std::atoi(layout.c_str() + at + word.size()));
}

/// What LAYOUT asks for.
sluice::ModelOptions model_options(const std::string &path, uint64_t cache_mib, const std::string &layout) {
    const auto asks = [&layout](const char *word) { return layout.find(word) != std::string::npos; };
    sluice::ModelOptions options{.path = path,
                                 .stream = sluice::StreamMode::Force,
                                 .cache_bytes = cache_mib << 20U,
                                 .row_stream = asks("+rows"),
                                 .repack = !asks("no-repack"),
                                 .repack_experts = asks("+repackexperts")};
    options.dense_weights = asks("+mmap") ? sluice::DenseWeights::Mmap : sluice::DenseWeights::Anon;
    options.overlap = !asks("+nooverlap");
    if (asks("+auto")) {
        return options; // reading and lookahead are the run's to decide, as for a user without flags
    }
    options.io_depth = 4;
    options.io_threads = 8;
    if (const auto experts = number_after(layout, "+look"); !experts) {
        options.lookahead = 0;
    } else if (*experts > 0) {
        options.lookahead = static_cast<uint32_t>(*experts);
    }
    if (const auto depth = number_after(layout, "+uring")) {
        options.io_engine = sluice::IoEngine::Uring;
        options.io_depth = *depth;
    }
    if (const auto lanes = number_after(layout, "+threads")) {
        options.io_engine = sluice::IoEngine::Threads;
        options.io_threads = *lanes;
    }
    return options;
}

int failed(const sluice::Error &error) {
    std::fprintf(stderr, "sluice_decode: %s\n", error.message.c_str());
    return 1;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 7) {
        std::fprintf(stderr, "usage: sluice_decode MODEL CACHE_MIB THREADS PROMPT TOKENS "
                             "repack|no-repack[+repackexperts][+rows][+mmap][+csv][+auto|[+uringN|+threadsN]"
                             "[+look[N]]][+nooverlap][+routes:FILE]\n");
        return 2;
    }
    const int count = std::atoi(argv[5]);
    const std::string layout = argv[6];
    const auto load_start = Clock::now();
    sluice::ModelOptions wanted = model_options(argv[1], std::strtoull(argv[2], nullptr, 10), layout);
    const std::unique_ptr<TraceRoutes> routes = routes_of(layout);
    wanted.lossy.route_source = routes.get();
    auto model = sluice::Model::load(wanted);
    if (!model) {
        return failed(model.error());
    }
    sluice::SessionOptions options{
        .context_tokens = 1024, .ubatch_tokens = 512, .threads = std::atoi(argv[3])};
    options.try_fewer_threads = layout.find("+auto") != std::string::npos;
    std::unique_ptr<sluice::telemetry::CsvWriter> table;
    if (layout.find("+csv") != std::string::npos) {
        auto made = sluice::telemetry::CsvWriter::create(
            (std::filesystem::temp_directory_path() / "sluice_decode.csv").string(), "bench");
        if (!made) {
            return failed(made.error());
        }
        table = std::move(*made);
        options.on_sample = [&table](const sluice::TokenSample &sample) { table->add_row(sample); };
    }
    auto session = sluice::Session::create(*model, options);
    if (!session) {
        return failed(session.error());
    }
    nlohmann::json result;
    result["load_s"] = seconds_since(load_start);

    const size_t vocabulary = session->vocab_size();
    const auto prompt = sluice::bench::prompt_tokens(static_cast<size_t>(std::atoi(argv[4])), vocabulary);
    sluice::ExpertStats before;
    sluice::RowStats rows_before;
    sluice::TimeParts time_before;
    std::vector<double> token_ms;
    // Twice the same: the first pass warms caches up, the second is measured.
    for (int pass = 0; pass < 2; ++pass) {
        session->reset();
        token_ms.clear();
        const auto prefill_start = Clock::now();
        if (auto decoded = session->decode(prompt); !decoded) {
            return failed(decoded.error());
        }
        result["prefill_s"] = seconds_since(prefill_start);
        before = session->stats().experts;
        if (pass == 0) {
            rows_before = session->stats().rows;
        }
        time_before = session->stats().generate_time;
        for (int i = 0; i < count; ++i) {
            const sluice::Token token = sluice::bench::next_token(i, vocabulary);
            const auto start = Clock::now();
            if (auto decoded = session->decode({&token, 1}); !decoded) {
                return failed(decoded.error());
            }
            token_ms.push_back(seconds_since(start) * 1e3);
        }
        if (pass == 0) { // the second pass finds its rows in the window
            const sluice::RowStats rows = session->stats().rows;
            result["row_mib_per_100_tokens"] =
                static_cast<double>(rows.bytes_read - rows_before.bytes_read) / 1048576.0 / count * 100;
            result["row_stall_ms_per_token"] = (rows.stall_seconds - rows_before.stall_seconds) * 1e3 / count;
        }
    }
    const sluice::RunStats end = session->stats();
    const sluice::ExpertStats &after = end.experts;
    const auto asked = static_cast<double>(after.hits - before.hits + after.misses - before.misses);
    result["token_ms"] = token_ms;
    result["peak_bytes"] = sluice::bench::peak_resident_bytes();
    result["read_mib_per_token"] =
        static_cast<double>(after.bytes_read - before.bytes_read) / 1048576.0 / count;
    const sluice::LookaheadStats &look = after.lookahead;
    result["lookahead"] = {{"experts", look.experts},
                           {"right", look.right},
                           {"reads", look.reads},
                           {"used", look.used},
                           {"late", look.late}};
    result["hit_rate"] = asked > 0 ? static_cast<double>(after.hits - before.hits) / asked : 0.0;
    result["stall_ms_per_token"] = (after.stall_seconds - before.stall_seconds) * 1e3 / count;
    for (const auto &[name, part] :
         {std::pair{"compute", &sluice::TimeParts::compute},
          std::pair{"expert_wait", &sluice::TimeParts::expert_wait},
          std::pair{"row_wait", &sluice::TimeParts::row_wait}, std::pair{"cache", &sluice::TimeParts::cache},
          std::pair{"between", &sluice::TimeParts::between}}) {
        result[std::string(name) + "_ms_per_token"] =
            (end.generate_time.*part - time_before.*part) * 1e3 / count;
    }
    result["other_ms_per_token"] = (end.generate_time.other() - time_before.other()) * 1e3 / count;
    result["dense_mib"] = static_cast<double>(end.dense_bytes) / 1048576.0;
    result["row_table_mib"] = static_cast<double>(end.rows.table_bytes) / 1048576.0;
    std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
    std::_Exit(0); // freeing gigabytes is not what is measured
}
