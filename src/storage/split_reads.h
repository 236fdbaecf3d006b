// One large read as several smaller ones, so that a device with little to do works on all its lanes.
#pragma once

#include "storage/read_engine.h"

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::storage {

/// How small reads may become by splitting. A flash device gives its full rate to a few reads of this size.
inline constexpr size_t kLeastSplitBytes = size_t{128} << 10U;

/// `requests`, each in as many even parts as make at least `lanes` reads of all, but of about
/// kLeastSplitBytes at least; unchanged if there are that many already. Parts begin at multiples of 4 KiB,
/// or of the file's alignment if that is more, from their request's offset. A request's callback runs once,
/// when its last part ended, with the first error of any. Throws std::bad_alloc with `requests` as they were.
std::vector<ReadRequest> split_few(std::span<const ReadRequest> requests, size_t lanes);

} // namespace sluice::storage
