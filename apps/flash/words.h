// Values of settings as they are written on the command line.
#pragma once

#include "options/options.h"

namespace sluice::flash {

constexpr const char *word_of(DenseWeights mode) {
    switch (mode) {
    case DenseWeights::Mmap:
        return "mmap";
    case DenseWeights::Warm:
        return "warm";
    case DenseWeights::Locked:
        return "locked";
    case DenseWeights::Ahwb:
        return "ahwb";
    case DenseWeights::Anon:
        break;
    }
    return "anon";
}

constexpr const char *word_of(CachePolicy policy) {
    switch (policy) {
    case CachePolicy::Lru:
        return "lru";
    case CachePolicy::Lfu:
        return "lfu";
    case CachePolicy::NextUse:
        break;
    }
    return "next-use";
}

constexpr const char *word_of(IoEngine engine) {
    switch (engine) {
    case IoEngine::Uring:
        return "uring";
    case IoEngine::Threads:
        return "threads";
    case IoEngine::Auto:
        break;
    }
    return "auto";
}

} // namespace sluice::flash
