#include "reporter.h"

#include "base/notice.h"
#include "platform/open_files.h"
#include "streaming/weights/streamed_buffer.h"

#include "ggml-impl.h"

#include <exception>
#include <fmt/format.h>
#include <string>

namespace sluice::plugin {

namespace {

/// Says what `make` returns, or nothing where there is no memory for it.
template <typename Make>
void say(const Make &make) {
    try {
        if (const std::string sentence = make(); !sentence.empty()) {
            notice(sentence);
        }
    } catch (const std::exception &) {
        notice("there is no memory for a message");
    }
}

/// llama.cpp's warm-up computes a token with all experts of each layer.
bool is_warm_up(const streaming::StreamedModel &model, const ggml_cgraph *graph) {
    const int64_t experts =
        static_cast<int64_t>(model.directory->header_integer("{arch}.expert_count").value_or(0));
    const int64_t used =
        static_cast<int64_t>(model.directory->header_integer("{arch}.expert_used_count").value_or(0));
    for (int i = 0; i < graph->n_nodes; ++i) {
        const ggml_tensor *node = graph->nodes[i];
        if (node->op == GGML_OP_MUL_MAT_ID && streaming::store_of(node->src[0]) != nullptr) {
            return used < experts && node->src[2]->ne[0] == experts;
        }
    }
    return false;
}

uint64_t mebibytes(uint64_t bytes) {
    return (bytes + (1U << 20U) - 1) >> 20U;
}

} // namespace

void Reporter::will_load(const streaming::StreamedModel &model) {
    say([&model] {
        const std::string &path = model.options.path;
        return platform::is_mapped(path)
                   ? fmt::format(
                         "{} is mapped, so the program has read all of it; with --load-mode none it reads "
                         "only what every token needs",
                         path)
                   : std::string();
    });
}

void Reporter::first_graph(const streaming::StreamedModel &model, const ggml_cgraph *graph) {
    say([&model] {
        return fmt::format("streaming the experts of {}, cache {} MiB", model.options.path,
                           mebibytes(streaming::expert_stats(model).cache_bytes));
    });
    if (is_warm_up(model, graph)) {
        notice(
            "the program warms up with every expert, so the whole model is read once; --no-warmup avoids it");
    }
}

void Reporter::freed(const streaming::StreamedModel &model) {
    if (!summary_) {
        return;
    }
    say([&model] {
        const ExpertStats stats = streaming::expert_stats(model);
        return stats.graphs == 0
                   ? std::string() // only looked at, or never used
                   : fmt::format("summary of {}: {} graphs, {} slices from the cache, {} read, {} "
                                 "bytes read, {} read errors",
                                 model.options.path, stats.graphs, stats.hits, stats.misses, stats.bytes_read,
                                 stats.read_errors);
    });
}

} // namespace sluice::plugin
